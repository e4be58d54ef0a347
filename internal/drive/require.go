package drive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
)

// A Worsening is a store that loses a trait while clients hold its locks.
type Worsening struct {
	URL     string
	Require driver.Trait  // the trait that the store has at first, and then lacks
	Worsen  func()        // makes the store lack it; the claims stay in the store
	Says    string        // the remedy or the fault that the reason names
	TTL     time.Duration // of the leases, which outlast Worsen, also on a slow machine
}

// Shuts waits until a client lets nobody in, since its store lacks a required trait.
func Shuts(t *testing.T, c *stile.Client) {
	t.Helper()
	for begin := time.Now(); ; {
		lease, err := c.Mutex("next").TryLock(Timely(t))
		switch {
		case errors.Is(err, stile.ErrUnsupported):
			return
		case time.Since(begin) > 2*time.Minute:
			t.Fatalf("a client that requires more than the store promises is answered %v; want ErrUnsupported, and the traits are %+v",
				err, c.Traits())
		case err == nil:
			_ = lease.Unlock() // the store may end the connection
		}
	}
}

// Unfit tests that a client which requires a trait lets nobody in and loses its leases, with the reason, once the
// store lacks it, while a client that requires nothing goes on.
func Unfit(t *testing.T, w *Worsening) {
	t.Helper()
	hold := func(name string, require ...driver.Trait) (*stile.Client, *stile.Lease) {
		t.Helper()
		o := &stile.Options{Require: require, LockOptions: stile.LockOptions{TTL: w.TTL}}
		c, err := stile.Open(Timely(t), w.URL, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		lease, err := c.Mutex(name).Lock(Timely(t))
		if err != nil {
			t.Fatal(err)
		}
		return c, lease
	}
	strict, lease := hold("strict", w.Require)
	_, easy := hold("easy")
	w.Worsen()
	Shuts(t, strict)
	select {
	case <-lease.Context().Done():
	case <-time.After(w.TTL + time.Minute):
		t.Fatal("the lease is not lost")
	}
	err := context.Cause(lease.Context())
	lost, ok := errors.AsType[*stile.LostError](err)
	if !ok || lost.Reason != stile.ReasonUnfit || !strings.Contains(err.Error(), w.Says) {
		t.Errorf("the lease ended as %v; want the reason that the store is unfit, with %q", err, w.Says)
	}
	if err := easy.Check(); err != nil {
		t.Errorf("the lease of a client that requires nothing = %v; want it to go on", err)
	}
}
