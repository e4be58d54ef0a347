package consul

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// A holder that is cut off for a part of its lease keeps the lock, and its lease is renewed again after that.
func TestShortCut(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	p := servertest.NewProxy(t, s.Addr)
	const ttl = 6 * time.Second
	brief := &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}}
	lease := lockOf(t, lockers(t, "consul://"+p.Addr, brief).Mutex("name"))
	left := func() time.Duration { return time.Until(lease.Deadline()) }
	p.Cut()
	servertest.Until(t, "a renewal is missed", func() bool { return left() < ttl/2 })
	p.Mend()
	servertest.Until(t, "the lease is renewed again", func() bool { return left() > ttl/2 })
	if _, err := lockers(t, "consul://"+s.Addr, nil).Mutex("name").TryLock(timely(t)); !errors.Is(err, stile.ErrHeld) {
		t.Errorf("another gets %v; want ErrHeld", err)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock = %v", err)
	}
}
