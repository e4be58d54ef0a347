package hashtest

import (
	"fmt"
	"slices"
	"testing"
)

type world struct {
	list  []*part
	same  part
	last  *part
	cache map[string]int
}

type part struct {
	number int
	text   string
}

// A listener is the test of a hash.
type listener struct {
	testing.TB
	said []string
}

func (l *listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

// A field that a hash forgets is found, and each word about fields that are left out must be true.
func TestEveryField(t *testing.T) {
	full := func(w *world) string {
		return fmt.Sprint(len(w.list) > 0 && *w.list[0] == part{1, "a"}, w.same, w.last != nil)
	}
	said := func(name string, changes bool, reason string) string {
		return fmt.Sprintf("%s: a change changes the hash: %v; the reason to leave the field out is %q", name, changes, reason)
	}
	for _, tt := range []struct {
		name     string
		unhashed map[string]string
		empty    bool
		want     []string
	}{
		{"whole", map[string]string{"world.cache": "a cache", "world.last.*": "not read"}, false, nil},
		{"forgotten", map[string]string{"world.last.*": "not read"}, false, []string{said("world.cache", false, "")}},
		{"forgotten behind a pointer", map[string]string{"world.cache": "a cache"}, false,
			[]string{said("part.number", false, ""), said("part.text", false, "")}},
		{"not left out", map[string]string{"world.cache": "a cache", "world.last": "not read"}, false,
			[]string{said("world.last", true, "not read")}},
		{"no field", map[string]string{"world.cache": "a cache", "world.last.*": "not read", "world.on": "a"}, false,
			[]string{"there is no field world.on"}},
		{"empty", map[string]string{"world.cache": "a cache", "world.last.*": "not read"}, true,
			[]string{"world.list is empty, so nothing can be changed in it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{[]*part{{1, "a"}}, part{2, "b"}, &part{3, "c"}, map[string]int{"a": 1}}
			if tt.empty {
				w.list = nil
			}
			l := &listener{TB: t}
			EveryField(l, w, func() string { return full(w) }, tt.unhashed)
			if !slices.Equal(l.said, tt.want) {
				t.Errorf("it says %q; want %q", l.said, tt.want)
			}
		})
	}
}
