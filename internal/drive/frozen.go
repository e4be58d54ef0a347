//go:build unix

package drive

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

const (
	frozenTries  = 20
	frozenWithin = time.Second
)

// Frozen freezes one member of a store at a URL, which resets no connection. A lease with this ttl must live on, and
// a client that has a second must get the lock: one try in twenty may meet the silence, and the next one goes
// elsewhere. The function freezes the member, and returns once the others serve.
func Frozen(t *testing.T, url string, ttl time.Duration, freeze func()) {
	t.Helper()
	holder, other := client(t, url), client(t, url)
	lease, err := holder.Mutex("held").With(stile.LockOptions{TTL: ttl}).Lock(Timely(t))
	if err != nil {
		t.Fatal(err)
	}
	lock := func() error {
		l, err := other.Mutex("name").LockWithin(t.Context(), frozenWithin)
		if err == nil {
			err = l.Unlock()
		}
		return err
	}
	servertest.Until(t, "the lock is had and released", func() bool { return lock() == nil })
	freeze()
	failed := 0
	for n, again := 0, 0; n < frozenTries; n++ {
		ran := awake.For(frozenWithin * 9 / 10)
		switch err := lock(); {
		case err == nil:
		case awake.Over(ran) || again == frozenTries:
			t.Logf("try %d: %v", n, err)
			failed++
		default: // this process could not run for a part of the second
			n, again = n-1, again+1
		}
	}
	if failed > 1 {
		t.Errorf("%d of %d locks fail within %v; want one at the most", failed, frozenTries, frozenWithin)
	}
	for range 3 {
		renewed := lease.Deadline().Add(ttl / 10) // which is not exact, of two clocks
		servertest.Until(t, "the lease is renewed or lost",
			func() bool { return lease.Deadline().After(renewed) || lease.Check() != nil })
	}
	if err := lease.Check(); errors.Is(err, stile.ErrLost) {
		t.Errorf("the lease of %v is lost: %v", ttl, err)
	}
}

func client(t *testing.T, url string) *stile.Client {
	t.Helper()
	c, err := stile.Open(Timely(t), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
