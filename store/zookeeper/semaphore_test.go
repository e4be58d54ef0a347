package zookeeper_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A claim takes its permits after the claims before it have taken theirs, and each client does that by itself. So a claim
// may wait though by the rule it would hold, and drivertest.Model, where clients take their time, is not for this layout.
func TestSemaphoreConformance(t *testing.T) {
	s := servertest.ZooKeeper(t)
	drivertest.Run(t, drivertest.Store{
		Fresh:  fresh(s.Addr, "&layout=semaphore"),
		Open:   func(t testing.TB) driver.Driver { return open(t, "zk://"+s.Addr+"?layout=semaphore") },
		Detour: detour(s.Addr, "6s&layout=semaphore"),
	})
}

const foreignPart = "_c_00112233-4455-6677-8899-aabbccddeeff-"

// permit returns a new claim of some permits.
func permit(name string, weight, capacity int64) *driver.Claim {
	c := claim(name)
	c.Weight, c.Capacity = weight, capacity
	return c
}

// semaphore opens a store of semaphores, with an admin.
func semaphore(t *testing.T) (driver.Driver, *admin) {
	t.Helper()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	a.create("/stile", "/stile/n", "/stile/n/locks", "/stile/n/leases")
	return open(t, "zk://"+s.Addr+"?layout=semaphore"), a
}

// foreign makes a node as Curator does, and returns its path.
func (a *admin) foreign(path string) string {
	a.t.Helper()
	c := wire.Create(path, "10.0.0.1", wire.Open)
	if a.do(c); c.Err != nil {
		a.t.Fatalf("create %s: %v", path, c.Err)
	}
	return c.Path
}

// The nodes under leases are the taken permits, of Curator and of stile, and nothing else.
func TestSemaphoreOfCurator(t *testing.T) {
	t.Parallel()
	d, a := semaphore(t)
	curators := a.foreign("/stile/n/leases/" + foreignPart + "lease-")
	first, second, third := permit("n", 2, 4), permit("n", 2, 4), permit("n", 1, 4)
	enter(t, d, first, true)
	if locks, leases := a.children("/stile/n/locks"), a.children("/stile/n/leases"); len(locks) != 0 || len(leases) != 3 {
		t.Errorf("locks are %q and leases %q; want none, and one of Curator's and two", locks, leases)
	}
	place := enter(t, d, second, false)
	if place.Ahead != 2 || place.Blocker.Record != "10.0.0.1" || !place.Blocker.Holds {
		t.Errorf("the claim that waits has %+v; want two before it, and that of Curator first", place)
	}
	if locks := a.children("/stile/n/locks"); len(locks) != 1 || !strings.Contains(locks[0], "lock-") {
		t.Errorf("locks are %q; want one, of the claim that waits for a permit", locks)
	}
	enter(t, d, third, false)
	a.remove(curators)
	if _, err := d.Await(t.Context(), second); err != nil {
		t.Fatalf("await: %v", err)
	}
	enter(t, d, second, true)
	enter(t, d, third, false)
	leave(t, d, first)
	if _, err := d.Await(t.Context(), third); err != nil {
		t.Fatalf("await: %v", err)
	}
	enter(t, d, third, true)
}

// Nobody takes a permit while another client has Curator's mutex, not even a free one; a try fails at once.
func TestSemaphoreBehindMutex(t *testing.T) {
	t.Parallel()
	d, a := semaphore(t)
	curators := a.foreign("/stile/n/locks/" + foreignPart + "lock-")
	c, try := permit("n", 1, 4), permit("n", 1, 4)
	enter(t, d, c, false)
	try.Try = true
	if place := enter(t, d, try, false); place.Ticket != 0 {
		t.Errorf("a try has %+v; want nothing kept", place)
	}
	if leases := a.children("/stile/n/leases"); len(leases) != 0 {
		t.Errorf("leases are %q; want none", leases)
	}
	a.remove(curators)
	if _, err := d.Await(t.Context(), c); err != nil {
		t.Fatalf("await: %v", err)
	}
	enter(t, d, c, true)
}

// A claim whose lock node is removed by hand while it waits for a permit never holds: a claim that comes to stand before it
// could have had that permit.
func TestSemaphoreLockNodeRemoved(t *testing.T) {
	t.Parallel()
	d, a := semaphore(t)
	curators := a.foreign("/stile/n/leases/" + foreignPart + "lease-")
	c := permit("n", 1, 1)
	enter(t, d, c, false)
	a.remove("/stile/n/locks/" + a.children("/stile/n/locks")[0])
	a.remove(curators)
	if place, err := d.Enter(t.Context(), c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("enter = %+v, %v; want ErrGone", place, err)
	}
	servertest.Until(t, "its permit is gone", func() bool { return len(a.children("/stile/n/leases")) == 0 })
}

// A claim that has lost one of its permits has lost all.
func TestSemaphorePermitRemoved(t *testing.T) {
	t.Parallel()
	d, a := semaphore(t)
	c := permit("n", 3, 3)
	enter(t, d, c, true)
	a.remove("/stile/n/leases/" + a.children("/stile/n/leases")[1])
	if answer := d.Renew(t.Context(), []*driver.Claim{c})[0]; !errors.Is(answer.Err, driver.ErrGone) {
		t.Errorf("renewal = %+v; want ErrGone", answer)
	}
	servertest.Until(t, "its permits are gone", func() bool { return len(a.children("/stile/n/leases")) == 0 })
}

// A claim of more permits than it may have nodes is refused before any request.
func TestSemaphoreTooMany(t *testing.T) {
	t.Parallel()
	d, _ := semaphore(t)
	if _, err := d.Enter(t.Context(), permit("n", 129, 1000)); driver.OutcomeOf(err) != driver.OutcomeRefused {
		t.Errorf("enter of 129 permits = %v; want a refusal", err)
	}
}
