package curator

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/line"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A claim whose lock node goes while it asks for its last permit does not hold: a claim with a later ticket may have had the
// permit meanwhile.
func TestLockNodeGoesWhilePermitsAreTaken(t *testing.T) {
	t.Parallel()
	zk := ensemble.New()
	zk.Conf = wire.Config{Hosts: []string{servertest.ZooKeeper(t).Addr}, Timeout: 10 * time.Second, Path: "/"}
	keeper := line.New(zk)
	sem := New(zk, keeper)
	keeper.Begins()
	t.Cleanup(func() {
		zk.End(!keeper.End())
		zk.Life.Wait()
	})
	const dir = "/stile/n"
	do := func(call *wire.Call) *wire.Call {
		t.Helper()
		if err := zk.Do(t.Context(), zk.Current(), call); err != nil || call.Err != nil {
			t.Fatalf("%s: %v, %v", call.Target(), err, call.Err)
		}
		return call
	}
	claim := func(id string) *driver.Claim {
		return &driver.Claim{Name: "n", ID: id, Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Minute}
	}
	first, c := claim("first"), claim("second")
	if _, err := sem.Enter(t.Context(), dir, first); err != nil {
		t.Fatalf("enter: %v", err)
	}
	if p, err := sem.Enter(t.Context(), dir, c); err != nil || p.Holds {
		t.Fatalf("enter = %+v, %v; want a place that waits", p, err)
	}
	if err := sem.Leave(t.Context(), dir, &driver.Release{Claim: first}); err != nil {
		t.Fatalf("leave: %v", err)
	}
	lockNodes := do(wire.List(dir+znode.LocksDir, nil)).Children
	if len(lockNodes) != 1 {
		t.Fatalf("%d lock nodes; want that of the claim that waits", len(lockNodes))
	}
	do(wire.Delete(dir + znode.LocksDir + "/" + lockNodes[0]))
	p, err := sem.take(t.Context(), c, sem.wholeClaimOf(c.ID))
	if p.Holds || !errors.Is(err, driver.ErrGone) {
		t.Errorf("it has %+v, %v; want ErrGone", p, err)
	}
}
