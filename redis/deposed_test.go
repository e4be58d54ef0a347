package redis_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/redis"
)

// behind returns a client that follows a Sentinel and never gives a connection up by itself.
func behind(t testing.TB, set *servertest.Sentinels) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{set.Sentinel.Addr}, Sentinel: rueidis.SentinelOption{MasterSet: set.Name},
		DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: time.Minute, KeepAlive: time.Hour}, ConnWriteTimeout: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// tookOver waits until the replica is the primary, and the clients know.
func tookOver(t testing.TB, set *servertest.Sentinels, clients ...rueidis.Client) {
	t.Helper()
	set.TookOver(t)
	for _, client := range clients {
		servertest.Until(t, "a client has heard of the new primary", func() bool {
			_, knows := client.Nodes()[set.Replica.Addr]
			return knows
		})
	}
}

// minute is an exclusive claim for a minute.
func minute(id string) *driver.Claim {
	return &driver.Claim{
		Name: "name", ID: id, Client: "client of " + id, Weight: driver.All, Capacity: driver.All,
		TTL: time.Minute, Wait: time.Minute, Record: "{}",
	}
}

// A primary stands still with a request that breaks a lock, until another took over, where the lock is held on. When it goes on,
// it tells the claim that waits, which does not hold.
func TestDeposedPrimaryTellsNothing(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	var clients []rueidis.Client
	open := func() driver.Driver {
		client := behind(t, set)
		d, err := redis.New(client, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		clients = append(clients, client)
		return d
	}
	holder, waiter, admin := open(), open(), open()
	held, waits := minute("held"), minute("waits")
	if p, err := holder.Enter(t.Context(), held); err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v", p, err)
	}
	enters := func() {
		if p, err := waiter.Enter(t.Context(), waits); err != nil || p.Holds {
			t.Fatalf("enter = %+v, %v", p, err)
		}
	}
	enters()
	awaits := func() bool { // until the subscription stands, or for a moment
		if _, err := waiter.Await(t.Context(), waits); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(fmt.Sprint(set.Primary.Redis([]string{"PUBSUB", "CHANNELS"})), "inbox/")
	}
	servertest.Until(t, "the waiter listens", awaits)
	awaits() // and knows
	enters() // it is told from now on
	told := make(chan driver.Place, 1)
	go func() {
		p, err := waiter.Await(t.Context(), waits)
		if err != nil {
			t.Error(err)
		}
		told <- p
	}()
	set.Settle(t)
	set.Primary.Pause()
	t.Cleanup(set.Primary.Resume)
	broken := make(chan error, 1)
	go func() {
		_, err := admin.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: held.Name})
		broken <- err
	}()
	tookOver(t, set, clients...)
	if err := holder.Renew(t.Context(), []*driver.Claim{held})[0].Err; err != nil {
		t.Fatalf("renewal by the server that took over: %v", err)
	}
	set.Primary.Resume()
	if err := <-broken; driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("break = %v; want an unknown outcome", err)
	}
	if p := <-told; p.Holds {
		t.Errorf("the server that was replaced tells the claim that waits %+v; want nothing", p)
	}
}
