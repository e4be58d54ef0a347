package redis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// The key of the id is deleted while a joined lock is held.
func TestIdentityLost(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	first, second := "redis://"+s.Addr+"?prefix=first/", "redis://"+s.Addr+"?prefix=second/"
	lose := func(key string) func() { return func() { s.Redis([]string{"DEL", key}) } }
	drive.IdentityLost(t, [2]string{first, second}, [2]func(){lose("first/id"), lose("second/id")})
}

// A value at the id's key that no client drew is no id.
func TestIdentityForeign(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := opener("redis://" + s.Addr)(t)
	defer d.Close()
	for what, command := range map[string][]string{
		"a word": {"SET", "stile/id", "mine"}, "nothing": {"SET", "stile/id", ""}, "too long": {"SET", "stile/id", strings.Repeat("A", 300)},
		"a list": {"LPUSH", "stile/id", "A"},
	} {
		s.Redis([]string{"DEL", "stile/id"}, command)
		id, err := d.(driver.Identifier).Identity(drive.Timely(t))
		if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), `key "stile/id"`) {
			t.Errorf("%s: %q, %v; want ErrForeign, with the key", what, id, err)
		}
	}
}
