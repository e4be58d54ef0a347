package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis"
)

// before is a connection that calls a function before it sends a script.
type before struct {
	net.Conn
	script func()
}

func (b before) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("\r\nEVAL\r\n")) {
		b.script()
	}
	return b.Conn.Write(text)
}

// behind returns a client that follows a Sentinel and never gives up a connection by itself.
func behind(t testing.TB, set *servertest.Sentinels, script func()) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{set.Sentinel.Addr}, Sentinel: rueidis.SentinelOption{MasterSet: set.Name},
		DisableCache: true, DisableRetry: true,
		Dialer: net.Dialer{Timeout: time.Minute, KeepAlive: time.Hour}, ConnWriteTimeout: time.Hour,
		DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, "tcp", addr)
			return before{c, script}, err
		},
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

// minute returns an exclusive claim with a lease of a minute.
func minute(id string) *driver.Claim {
	return &driver.Claim{
		Name: "name", ID: id, Client: "client of " + id, Weight: driver.All, Capacity: driver.All,
		TTL: time.Minute, Wait: time.Minute, Record: "{}",
	}
}

// A primary gets a script for a renewal, stands still until another server took over, and then renews. At the new primary
// that lease may be over, so the outcome is unknown.
func TestDeposedPrimaryRenewsNothing(t *testing.T) {
	t.Parallel()
	for layout, open := range map[string]func(rueidis.Client) (driver.Driver, error){
		"queue": func(c rueidis.Client) (driver.Driver, error) { return redis.New(c, nil) },
		"setnx": func(c rueidis.Client) (driver.Driver, error) { return redis.NewSetNX(c, nil) },
	} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			set := servertest.RedisSentinel(t)
			var armed atomic.Bool
			stood := make(chan struct{})
			client := behind(t, set, func() {
				if armed.CompareAndSwap(true, false) {
					set.Primary.Pause()
					close(stood)
				}
			})
			d, err := open(client)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			held := minute("held")
			if p, err := d.Enter(t.Context(), held); err != nil || !p.Holds {
				t.Fatalf("enter = %+v, %v", p, err)
			}
			set.Settle(t)
			set.Primary.Redis([]string{"SCRIPT", "FLUSH"})
			armed.Store(true)
			t.Cleanup(set.Primary.Resume)
			renewed := make(chan driver.Renewal, 1)
			go func() { renewed <- d.Renew(t.Context(), []*driver.Claim{held})[0] }()
			<-stood
			tookOver(t, set, client)
			set.Primary.Resume()
			if r := <-renewed; driver.OutcomeOf(r.Err) != driver.OutcomeUnknown || r.Err == nil {
				t.Errorf("renewal by the server that was replaced = %+v; want an unknown outcome", r)
			}
		})
	}
}

// A primary stands still with a request that breaks a lock until another server took over, where the lock is still held.
// When the first goes on, it sends its message to the waiting claim, which does not hold.
func TestDeposedPrimaryTellsNothing(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	var clients []rueidis.Client
	open := func() driver.Driver {
		client := behind(t, set, func() {})
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
	awaits() // now the waiter knows
	enters() // from now on the server sends it messages
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
