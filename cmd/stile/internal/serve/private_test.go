package serve

import (
	"io/fs"
	"testing"
)

func TestPrivate(t *testing.T) {
	for _, tt := range []struct {
		mode        fs.FileMode
		owner, self int
		want        bool
	}{
		{0o600, 7, 7, true}, {0o400, 0, 0, true}, {0o640, 7, 7, false}, {0o604, 7, 7, false}, {0o440, 0, 0, false},
		{0o440, 0, 7, true}, {0o640, 0, 7, true}, {0o660, 0, 7, false}, {0o444, 0, 7, false}, {0o440, 8, 7, false},
	} {
		if got := private(tt.mode, tt.owner, tt.self); got != tt.want {
			t.Errorf("a file of user %d with mode %04o is private to user %d: %v; want %v", tt.owner, tt.mode, tt.self, got, tt.want)
		}
	}
}
