package boottime

import (
	"testing"
	"time"
)

func TestParseOffset(t *testing.T) {
	tests := []struct {
		text  string
		want  time.Duration
		known bool
	}{
		{"monotonic           0         0\nboottime            0         0\n", 0, true},
		{"monotonic           5         0\nboottime        86400       500\n", 24*time.Hour + 500, true},
		{"boottime -1 999999999\n", -1, true},
		{"monotonic           0         0\n", 0, false},
		{"boottime x 0\n", 0, false},
		{"boottime 0\n", 0, false},
		{"", 0, false},
	}
	for _, tt := range tests {
		if got, known := parseOffset([]byte(tt.text)); known != tt.known || known && got != tt.want {
			t.Errorf("parseOffset(%q) = %v, %v; want %v, %v", tt.text, got, known, tt.want, tt.known)
		}
	}
}
