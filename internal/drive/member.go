//go:build unix

package drive

import (
	"errors"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// SilentMember tests that a call ends in one bounded wait, the client's patience, while a member of the store at a URL is
// silent: with an error of the store, or with the lock if the others can do without that member. The first call meets the
// silence on its connection, and the second knows of it.
func SilentMember(t *testing.T, url, name string, freeze func()) {
	t.Helper()
	c := client(t, url)
	timed := func(call func() error) error {
		over := awake.For(patience + patience/5)
		err := call()
		if awake.Over(over) {
			t.Errorf("a call took longer than its patience of %v: %v", patience, err)
		}
		return err
	}
	try := func() error {
		var l *stile.Lease
		err := timed(func() (err error) { l, err = c.Mutex(name).TryLock(Timely(t)); return err })
		if err == nil {
			err = timed(func() error { return l.Unlock() })
		}
		return err
	}
	servertest.Until(t, "the lock is had and released", func() bool { return try() == nil })
	freeze()
	for range 2 {
		err := try()
		t.Logf("%v", err)
		if err != nil && !errors.Is(err, stile.ErrUnreachable) && !errors.Is(err, stile.ErrUnknown) &&
			!errors.Is(err, stile.ErrHeld) {
			t.Errorf("%v; want an error that says that the store did not answer", err)
		}
	}
}
