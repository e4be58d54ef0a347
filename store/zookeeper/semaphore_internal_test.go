package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A claim whose entrance goes while it asks for its last permit does not hold: somebody with a later ticket may have had
// the permit meanwhile.
func TestEntranceGoesWhilePermitsAreTaken(t *testing.T) {
	t.Parallel()
	opened, err := driver.Open(t.Context(), "zk://"+servertest.ZooKeeper(t).Addr+"?layout=semaphore")
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	d := opened.(*Driver)
	t.Cleanup(func() { d.Close() })
	do := func(call *wire.Call) *wire.Call {
		t.Helper()
		if err := d.zk.do(t.Context(), d.zk.current(), call); err != nil || call.Err != nil {
			t.Fatalf("%s: %v, %v", call.Target(), err, call.Err)
		}
		return call
	}
	claim := func(id string) *driver.Claim {
		return &driver.Claim{Name: "n", ID: id, Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Minute}
	}
	first, c := claim("first"), claim("second")
	if _, err := d.Enter(t.Context(), first); err != nil {
		t.Fatalf("enter: %v", err)
	}
	if p, err := d.Enter(t.Context(), c); err != nil || p.Holds {
		t.Fatalf("enter = %+v, %v; want a place that waits", p, err)
	}
	if err := d.Leave(t.Context(), &driver.Release{Claim: first}); err != nil {
		t.Fatalf("leave: %v", err)
	}
	entrances := do(wire.List("/stile/n"+locksDir, nil)).Children
	if len(entrances) != 1 {
		t.Fatalf("%d entrances; want that of the claim that waits", len(entrances))
	}
	do(wire.Delete("/stile/n" + locksDir + "/" + entrances[0]))
	sem := d.recipe.(*semaphore)
	p, err := sem.take(t.Context(), c, sem.partedOf(c.ID))
	if p.Holds || !errors.Is(err, driver.ErrGone) {
		t.Errorf("it has %+v, %v; want ErrGone", p, err)
	}
}
