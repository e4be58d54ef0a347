package sim_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// usesOf are the methods of a client that can fail, each with the context and for the name "x".
func usesOf(c *stile.Client, ctx context.Context) map[string]func() error {
	uses := map[string]func() error{
		"List":   func() error { _, err := c.List(ctx, ""); return err },
		"Show":   func() error { _, err := c.Show(ctx, "x"); return err },
		"Leader": func() error { _, err := c.Leader(ctx, "x"); return err },
		"Break":  func() error { _, err := c.Break(ctx, "x", stile.BreakOptions{Head: true}); return err },
		"Attach": func() error {
			_, err := c.Attach(ctx, stile.Handle{Name: "x", ID: "id", Weight: 1, Capacity: 1, Token: 1 << 20, TTL: time.Minute})
			return err
		},
		"Watch": func() (last error) {
			for _, err := range c.Watch(ctx, "x") {
				last = err
			}
			return last
		},
		"Observe": func() (last error) {
			for _, err := range c.Observe(ctx, "x") {
				last = err
			}
			return last
		},
	}
	for kind, make := range map[string]func() *stile.Lock{
		"Mutex":     func() *stile.Lock { return c.Mutex("x") },
		"Writer":    func() *stile.Lock { return c.Writer("x") },
		"Reader":    func() *stile.Lock { return c.Reader("x") },
		"Permit":    func() *stile.Lock { return c.Permit("x", 1, 2) },
		"Candidate": func() *stile.Lock { return c.Candidate("x", "me") },
		"Join":      func() *stile.Lock { return stile.Join(c.Mutex("x"), c.Mutex("y")) },
		"Join one":  func() *stile.Lock { return stile.Join(c.Mutex("x")) },
	} {
		for op, use := range usesOfLock(make, ctx) {
			uses[kind+"."+op] = use
		}
	}
	return uses
}

func usesOfLock(lock func() *stile.Lock, ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"Lock":       func() error { _, err := lock().Lock(ctx); return err },
		"TryLock":    func() error { _, err := lock().TryLock(ctx); return err },
		"LockWithin": func() error { _, err := lock().LockWithin(ctx, time.Second); return err },
		"within 0":   func() error { _, err := lock().LockWithin(ctx, 0); return err },
		"With.Lock":  func() error { _, err := lock().With(stile.LockOptions{TTL: time.Minute}).Lock(ctx); return err },
		"Do":         func() error { return lock().Do(ctx, func(context.Context) error { return errEnough }) },
	}
}

// invalid fails the test unless each call returns ErrInvalid with helpful text.
func invalid(t *testing.T, uses map[string]func() error, says string) {
	t.Helper()
	for name, use := range uses {
		if err := use(); !errors.Is(err, stile.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want ErrInvalid that says %q", name, err, says)
		}
	}
}

// A client or lock that no constructor made returns an error and never panics.
func TestClientsThatWereNeverMade(t *testing.T) {
	made, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	copied := *made
	for name, c := range map[string]*stile.Client{"nil": nil, "zero": {}, "copy": &copied} {
		t.Run(name, func(t *testing.T) {
			says := "make one with Open or New"
			if name == "copy" {
				says = "it is a copy"
			}
			uses := usesOf(c, t.Context())
			uses["Close"] = c.Close
			invalid(t, uses, says)
		})
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
}

// Each call refuses a nil context.
func TestNilContext(t *testing.T) {
	c, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var none context.Context
	invalid(t, usesOf(c, none), "context: it is nil")
	lease, err := c.Mutex("z").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	invalid(t, map[string]func() error{
		"Detach": func() error { _, err := lease.Detach(none); return err },
		"Open":   func() error { _, err := stile.Open(none, "memory://", nil); return err },
	}, "context: it is nil")
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
	if stile.FromContext(none) != nil || stile.Token(none) != 0 {
		t.Error("a nil context carries a lease")
	}
	if err := c.Mutex("z").Do(t.Context(), nil); !errors.Is(err, stile.ErrInvalid) {
		t.Errorf("Do of nothing: %v; want ErrInvalid", err)
	}
}

func TestLocksThatWereNeverMade(t *testing.T) {
	for name, lock := range map[string]func() *stile.Lock{
		"nil": func() *stile.Lock { return nil }, "zero": func() *stile.Lock { return &stile.Lock{} },
		"joined nil":  func() *stile.Lock { return stile.Join(nil) },
		"joined zero": func() *stile.Lock { return stile.Join(&stile.Lock{}) },
	} {
		t.Run(name, func(t *testing.T) {
			invalid(t, usesOfLock(lock, t.Context()), "make one with Client.Mutex")
			if n := lock().Name(); n != "" {
				t.Errorf("its name is %q", n)
			}
		})
	}
	invalid(t, usesOfLock(func() *stile.Lock { return stile.Join() }, t.Context()), "at least one")
}

// A nil lease, or a zero one, counts as lost, so that no program relies on it.
func TestLeasesThatWereNeverHad(t *testing.T) {
	for name, l := range map[string]*stile.Lease{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			invalid(t, map[string]func() error{
				"Check":       l.Check,
				"Unlock":      l.Unlock,
				"UnlockAfter": func() error { return l.UnlockAfter(time.Second) },
				"Detach":      func() error { _, err := l.Detach(t.Context()); return err },
			}, "acquire one")
			if l.Name() != "" || l.Token() != 0 || l.State() != stile.StateLost {
				t.Errorf("it is %q, token %d, %v; want it to count as lost", l.Name(), l.Token(), l.State())
			}
		})
	}
}

func TestDriversThatAreNil(t *testing.T) {
	var none *memory.Driver
	for _, d := range []driver.Driver{nil, none} {
		if _, err := stile.New(d, nil); !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("%T: %v; want ErrInvalid", d, err)
		}
	}
}

// String of a value that a later version may add, or of a zero value, does not panic.
func TestWordsOfValuesOutOfRange(t *testing.T) {
	for _, n := range []int{-1, 0, 99} {
		for _, text := range []string{stile.State(n).String(), stile.Kind(n).String(), stile.Reason(n).String()} {
			if text == "" {
				t.Errorf("no word for %d", n)
			}
		}
	}
	for _, err := range []error{&stile.Error{}, &stile.HeldError{}, &stile.LostError{}, &stile.UnknownError{}} {
		if err.Error() == "" {
			t.Errorf("no words for %T", err)
		}
	}
	var leader stile.Leader
	if leader.Leads() || leader.Issued(0) || (stile.Holder{}).String() == "" {
		t.Error("the zero leader leads")
	}
	stile.LogTo(slog.New(slog.DiscardHandler))(stile.Event{})
}
