package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// A holder that is cut off for a part of its lease keeps the lock. Afterwards its lease is renewed again.
func TestShortCut(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	p := servertest.NewProxy(t, s.Addr)
	c, other := lockers(t, nil, p.Addr), lockers(t, nil, s.Addr)
	const ttl = 6 * time.Second
	lease := lock(t, c.Mutex("name").With(stile.LockOptions{TTL: ttl}))
	left := func() time.Duration { return time.Until(lease.Deadline()) }
	p.Cut()
	servertest.Until(t, "a renewal is missed", func() bool { return left() < ttl/2 })
	p.Mend()
	servertest.Until(t, "the lease is renewed again", func() bool { return left() > ttl/2 })
	if _, err := other.Mutex("name").TryLock(timely(t)); !errors.Is(err, stile.ErrHeld) {
		t.Errorf("another gets %v; want ErrHeld", err)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock = %v", err)
	}
}
