//go:build unix

package remote_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
)

// While one of two services is frozen, leases survive and locks can be taken.
func TestFrozenService(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), nobody)
	second, _ := service(t, store.Driver(), nobody)
	p := servertest.NewProxy(t, first)
	drive.Frozen(t, "stile://"+p.Addr+","+second, 6*time.Second, func() { p.Freeze(true, true) })
}

// A lock that is released while the first of two services is frozen is free at once, not when its lease runs out.
func TestReleaseWhileFrozen(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), nobody)
	second, _ := service(t, store.Driver(), nobody)
	p := servertest.NewProxy(t, first)
	open := func(url string) *stile.Client {
		c, err := stile.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	lease, err := open("stile://" + p.Addr + "," + second).Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Freeze(true, true)
	if err := lease.Unlock(); err != nil {
		t.Errorf("the release = %v; want nil", err)
	}
	if next, err := open("stile://" + second).Mutex("a").TryLock(t.Context()); err != nil {
		t.Errorf("the next client = %v; want the lock", err)
	} else if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// A lock is to be had while the first of two services is frozen, by a client that does not know.
func TestLockWhileFrozen(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), nobody)
	second, _ := service(t, store.Driver(), nobody)
	p := servertest.NewProxy(t, first)
	c, err := stile.Open(t.Context(), "stile://"+p.Addr+","+second, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p.Freeze(true, true)
	if lease, err := c.Mutex("a").Lock(t.Context()); err != nil {
		t.Errorf("lock = %v; want it held", err)
	} else if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
}

// A client that freezes while it waits, with its connections open, is granted for the short lease of a waiter.
func TestFrozenWaiter(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	took := drive.FrozenWaiter(t, func(testing.TB) driver.Driver { return store.Driver() }, time.Hour)
	if took > time.Minute { // 6 s on a machine that does not stand still
		t.Errorf("a frozen client with a ttl of an hour keeps the lock for %v; want 6 s", took)
	}
}
