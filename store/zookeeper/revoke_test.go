package zookeeper_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// revoke asks for a lock as Curator does.
func (a *admin) revoke(path string) {
	a.t.Helper()
	set := wire.Set(path, "__REVOKE__")
	if a.do(set); set.Err != nil {
		a.t.Fatalf("set %s: %v", path, set.Err)
	}
}

// A renewal counts the requests for the lock, by Curator and by stile, and the claim goes on.
func TestRevocation(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	for layout, parent := range map[string]string{"mutex": "/stile/mutex", "semaphore": "/stile/semaphore/leases"} {
		d, c := open(t, "zk://"+s.Addr+"?layout="+layout), claim(layout)
		enter(t, d, c, true)
		node := parent + "/" + a.children(parent)[0]
		renews := func(what string, asks int64) {
			t.Helper()
			answer := d.Renew(t.Context(), []*driver.Claim{c})[0]
			if answer.Err != nil || answer.Asks != asks {
				t.Errorf("layout %s: the renewal %s is %+v; want %d askings", layout, what, answer, asks)
			}
		}
		other := open(t, "zk://"+s.Addr+"?layout="+layout).(driver.Breaker)
		asks := func() {
			t.Helper()
			got, err := other.Break(t.Context(), &driver.BreakRequest{Name: layout, Ask: true})
			if err != nil || !got.Holds {
				t.Fatalf("layout %s: ask = %+v, %v; want the claim, which holds", layout, got, err)
			}
		}
		renews("before anybody asked", 0)
		asks()
		renews("after stile asked", 1)
		asks()
		asks()
		renews("after stile asked twice", 3)
		for n := range int64(2) {
			a.revoke(node)
			renews("after Curator asked", 4+n)
			renews("after that", 4+n)
		}
		asks()
		renews("after stile asked over Curator's word", 6)
		leave(t, d, c)
		if left := a.children(parent); len(left) != 0 {
			t.Errorf("layout %s: after the release there are %q; want nothing", layout, left)
		}
	}
}

// The holder's observer hears of a request for the lock long before the next renewal is due.
func TestRevocationIsHeard(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	asked := make(chan stile.Event, 16)
	c, err := stile.Open(t.Context(), "zk://"+s.Addr, &stile.Options{
		LockOptions: stile.LockOptions{TTL: 10 * time.Minute},
		Observer: func(e stile.Event) {
			if e.Kind == stile.EventAsked {
				asked <- e
			}
		},
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	lease := lock(t, c, "n")
	a.revoke("/stile/n/" + a.until("n", 1)[0])
	select {
	case e := <-asked:
		if e.Name != "n" || e.Token > lease.Token() || e.Token == 0 {
			t.Errorf("the event is %+v; want name n, and a token up to %d", e, lease.Token())
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
	if err := lease.Check(); err != nil {
		t.Errorf("the lease is over: %v; want it to go on", err)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
}
