//go:build unix

package opening

import (
	"testing"
)

func TestRawPassword(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"redis://u:p%40@h", "p%40"}, {"redis://:p@h/x@y", "p"}, {"redis://h", ""}, {"redis://u@h", ""}, {"u:p@h", ""}, {"redis://u:a@b@h", "a@b"},
	} {
		if got := rawPassword(tt.url); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
}
