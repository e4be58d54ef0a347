package stile_test

import (
	"errors"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// A text that the store would change is refused before the store is asked.
func TestTextThatCannotBeKept(t *testing.T) {
	d := memory.New()
	c, err := stile.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	unfit, err := stile.New(d, &stile.Options{LockOptions: stile.LockOptions{Owner: "\xff"}})
	if err == nil {
		defer unfit.Close()
		_, err = unfit.Mutex("a").TryLock(t.Context())
	}
	if !errors.Is(err, stile.ErrInvalid) {
		t.Errorf("a client's owner: %v", err)
	}
	for what, l := range map[string]*stile.Lock{
		"owner":     c.Mutex("a").With(stile.LockOptions{Owner: "\xff", Reclaim: true}),
		"reason":    c.Permit("a", 1, 2).With(stile.LockOptions{Reason: "because \xff"}),
		"candidate": c.Candidate("a", "\xff"),
	} {
		if _, err := l.TryLock(t.Context()); !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("%s: %v, want %v", what, err, stile.ErrInvalid)
		}
	}
	if n := d.Calls(memory.Enter); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	leads, err := c.Candidate("a", "one").TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := leads.Proclaim(t.Context(), "\xff"); !errors.Is(err, stile.ErrInvalid) {
		t.Errorf("proclaimed: %v, want %v", err, stile.ErrInvalid)
	}
	if leader, err := c.Leader(t.Context(), "a"); err != nil || leader.Value != "one" {
		t.Errorf("the leader stands for %q, %v", leader.Value, err)
	}
}
