package redis

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// pair starts a server and a replica of it that is in step.
func pair(t testing.TB) (primary, replica *servertest.Server) {
	t.Helper()
	primary = servertest.Redis(t, "--repl-diskless-sync-delay", "0")
	port := number(int64(primary.Ports[0]))
	replica = servertest.Redis(t, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", port)
	servertest.Until(t, "the replica is in step", func() bool { return replica.RedisInfo("master_link_status") == "up" })
	return primary, replica
}

// Two servers exchange their roles behind an address, whose open connections stay. A client recovers by itself, even after
// it was connected to a replica for a while, and loses no lease that the store has.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{layoutQueue, layoutSetNX} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			one, two := pair(t)
			address := servertest.NewProxy(t, one.Addr)
			d, err := driver.Open(timely(t), "redis://"+address.Addr+"?layout="+layout)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			holder, waiter := claim("name", "holder"), claim("name", "waiter")
			holder.TTL, waiter.Wait, waiter.TTL = 2*time.Minute, 2*time.Minute, 2*time.Minute // longer than two moves take
			enter(t, d, holder)
			if p := enter(t, d, waiter); p.Holds {
				t.Fatalf("the waiter's place is %+v", p)
			}
			for round := range 2 {
				servertest.Until(t, "the replica has all", func() bool {
					return two.RedisInfo("slave_repl_offset") == one.RedisInfo("master_repl_offset")
				})
				two.Redis([]string{"REPLICAOF", "NO", "ONE"})
				one.Redis([]string{"REPLICAOF", "127.0.0.1", number(int64(two.Ports[0]))})
				renew := func() error { return d.Renew(timely(t), []*driver.Claim{holder})[0].Err }
				if err := renew(); err == nil || !driver.NotApplied(err) || !driver.IsUnreachable(err) {
					t.Errorf("round %d: the renewal at a replica = %v; want it refused for now", round, err)
				}
				address.Retarget(two.Addr)
				servertest.Until(t, "the lease is renewed at the new primary", func() bool {
					err = renew()
					return err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err)
				})
				if err != nil {
					t.Fatalf("round %d: renewal at the new primary = %v", round, err)
				}
				one, two = two, one
				servertest.Until(t, "the replica is in step again", func() bool {
					return two.RedisInfo("master_link_status") == "up"
				})
			}
			held := awaiting(t, d, waiter)
			leave(t, d, holder)
			if p := <-held; !p.Holds {
				t.Errorf("the waiter's place is %+v", p)
			}
		})
	}
}
