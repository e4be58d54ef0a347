package redis

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// following returns a driver of layout setnx, over a client that follows Sentinel and never gives a connection up by
// itself: what ends in a test with it does not end by a time-out.
func following(t testing.TB, set *servertest.Sentinels) (*SetNX, rueidis.Client) {
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
	d, err := NewSetNX(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, client
}

// tells waits until a server is to tell somebody of a change of a key, so a waiter waits for its word.
func tells(t testing.TB, s *servertest.Server) {
	t.Helper()
	servertest.Until(t, "the server tells of a key", func() bool {
		return s.RedisInfo("tracking_total_keys") != "0"
	})
}

// failOver waits until the replica is the primary, and the Sentinel says so.
func failOver(t testing.TB, set *servertest.Sentinels) {
	t.Helper()
	servertest.Until(t, "the replica is the primary", func() bool {
		addr, _ := set.Sentinel.Redis([]string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.Name}).([]any)
		return len(addr) == 2 && addr[1] == strconv.Itoa(set.Replica.Ports[0])
	})
}

// The primary hangs with a waiter's claim on the way, another is promoted and grants the lock, and the old one goes on:
// the waiter must not take its word.
func TestSetNXDeposedPrimaryGrantsNothing(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	b, client := following(t, set)
	set.Primary.Redis([]string{"SET", "name", "theirs", "PX", "3000"})
	waiter := claim("name", "b")
	if p := enter(t, b, waiter); p.Holds {
		t.Fatalf("the waiter's place is %+v", p)
	}
	ctx, cancel := context.WithCancel(timely(t))
	heard := make(chan error, 1)
	go func() { _, err := b.Await(ctx, waiter); heard <- err }()
	tells(t, set.Primary)
	cancel()
	if err := <-heard; !errors.Is(err, context.Canceled) {
		t.Errorf("await = %v; want the context's error", err)
	}
	set.Settle(t)
	set.Primary.Pause()

	type answer struct {
		place driver.Place
		err   error
	}
	late := make(chan answer, 1)
	go func() {
		p, err := b.Enter(timely(t), waiter)
		late <- answer{p, err}
	}()
	failOver(t, set)
	c, _ := following(t, set)
	first := claim("name", "c")
	servertest.Until(t, "another holds on the new primary", func() bool {
		p, err := c.Enter(timely(t), first)
		return err == nil && p.Holds
	})
	servertest.Until(t, "the waiter's client has heard of the new primary", func() bool {
		for addr := range client.Nodes() {
			return addr == set.Replica.Addr
		}
		return false
	})
	set.Primary.Resume()
	if a := <-late; a.err == nil && a.place.Holds {
		t.Errorf("the waiter holds by the word of a deposed primary, beside the one who holds on the new one: %+v", a.place)
	}
}

// A waiter whose primary hangs is told by the new one.
func TestSetNXWaiterFollowsThePrimary(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	b, _ := following(t, set)
	set.Primary.Redis([]string{"SET", "name", "theirs", "PX", "60000"})
	set.Settle(t)
	held := awaiting(t, b, claim("name", "b"))
	tells(t, set.Primary)
	set.Primary.Pause()
	t.Cleanup(set.Primary.Resume)
	failOver(t, set)
	set.Replica.Redis([]string{"DEL", "name"})
	select {
	case p := <-held:
		if !p.Holds {
			t.Errorf("the waiter's place is %+v", p)
		}
	case <-time.After(15 * time.Second):
		t.Error("the waiter waits for a primary that hangs")
	}
}

// A server that cannot be reached for a while has not refused to tell of changes: a waiter hears again once it is back.
func TestSetNXHearsAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	proxy := servertest.NewProxy(t, s.Addr)
	d := openSetNX(t, "redis://"+proxy.Addr)
	s.Redis([]string{"SET", "name", "theirs", "PX", "60000"})
	waiter := claim("name", "waiter")
	enter(t, d, waiter)
	proxy.Cut()
	if _, err := d.Await(timely(t), waiter); err == nil || !driver.IsUnreachable(err) {
		t.Errorf("await = %v while the server cannot be reached; want it unreachable", err)
	}
	proxy.Mend()
	servertest.Until(t, "the server is back", func() bool {
		_, err := d.Enter(timely(t), waiter)
		return err == nil
	})
	held := awaiting(t, d, waiter)
	tells(t, s)
	s.Redis([]string{"DEL", "name"})
	if p := <-held; !p.Holds {
		t.Errorf("the waiter's place is %+v", p)
	}
}
