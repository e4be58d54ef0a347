package redis

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// alerted returns a channel of a driver's alerts.
func alerted(d *Driver) chan string {
	heard := make(chan string, 100)
	d.Alert(func(ids ...string) {
		for _, id := range ids {
			heard <- id
		}
	})
	return heard
}

// earStands waits until a client listens for its claims that hold.
func earStands(t *testing.T, d *Driver, c *driver.Claim) {
	t.Helper()
	channel := d.clientChannel(c.Client)
	servertest.Until(t, "the holder listens", func() bool { return d.breaks.inboxes.Stands(channel) })
}

func drained(heard chan string) {
	for len(heard) > 0 {
		<-heard
	}
}

// A holder and a waiter learn at once who broke their claim, on one server, in a cluster and behind Sentinel.
func TestBreakIsHeard(t *testing.T) {
	t.Parallel()
	s, nodes, set := servertest.Redis(t), servertest.RedisCluster(t), servertest.RedisSentinel(t)
	lane := awake.Lane(t)
	for _, url := range []string{
		"redis://" + s.Addr, "redis+cluster://" + nodes[0].Addr, "redis+sentinel://" + set.Sentinel.Addr + "/" + set.Name,
	} {
		d, other := open(t, url), open(t, url)
		heard := alerted(d)
		holder, waiter := claim("name", "holder"), claim("name", "waiter")
		enter(t, d, holder)
		earStands(t, d, holder)
		enter(t, d, waiter)
		listens(t, d, waiter)
		drained(heard)
		breaks := func(c *driver.Claim, record string) {
			if _, err := other.Break(timely(t), &driver.BreakRequest{Name: "name", Ticket: c.Ticket, Record: record}); err != nil {
				t.Fatalf("%s: %v", url, err)
			}
		}
		woken := make(chan driver.Place, 1)
		go func() {
			p, _ := d.Await(timely(t), waiter)
			woken <- p
		}()
		start := time.Now()
		breaks(waiter, "")
		select {
		case p := <-woken:
			if p.Holds {
				t.Errorf("%s: a waiter that was broken holds: %+v", url, p)
			}
		case <-awake.For(time.Minute):
			t.Errorf("%s: a waiter is not told that it was broken", url)
		}
		lane.Within(time.Since(start), time.Second, "%s: the waiter is told that it was broken", url)
		record := `{"by":"ann ` + strings.Repeat("x\n", 2000) + `"}`
		start = time.Now()
		breaks(holder, record)
		select {
		case id := <-heard:
			if id != "holder" {
				t.Errorf("%s: alerted of %s; want the holder", url, id)
			}
		case <-awake.For(time.Minute):
			t.Errorf("%s: the holder's client is not alerted", url)
		}
		lane.Within(time.Since(start), time.Second, "%s: the holder's client is alerted", url)
		err := d.Renew(timely(t), []*driver.Claim{holder})[0].Err
		if b, ok := errors.AsType[*driver.BrokenError](err); !ok || b.Record != record {
			t.Errorf("%s: renewal = %v; want that it was broken, with the record", url, err)
		}
	}
}

// A client that only waits learns who broke its claim before it is woken. Otherwise it would suppose that the store forgot
// the claim, and enter again.
func TestBrokenWaiterKnows(t *testing.T) {
	t.Parallel()
	s, nodes := servertest.Redis(t), servertest.RedisCluster(t)
	for _, url := range []string{"redis://" + s.Addr, "redis+cluster://" + nodes[0].Addr} {
		d, other := open(t, url), open(t, url)
		holder := claim("name", "holder")
		holder.Client = "other"
		enter(t, other, holder)
		for i := range 20 {
			waiter, record := claim("name", "waiter "+strconv.Itoa(i)), "why "+strconv.Itoa(i)
			enter(t, d, waiter)
			listens(t, d, waiter)
			woken := make(chan error, 1)
			go func() {
				_, err := d.Await(timely(t), waiter)
				if err == nil {
					_, err = d.Enter(timely(t), waiter)
				}
				woken <- err
			}()
			if _, err := other.Break(timely(t), &driver.BreakRequest{Name: "name", Ticket: waiter.Ticket, Record: record}); err != nil {
				t.Fatalf("%s: %v", url, err)
			}
			err := <-woken
			if b, ok := errors.AsType[*driver.BrokenError](err); !ok || b.Record != record {
				t.Errorf("%s: entering again = %v; want that it was broken, with the record", url, err)
			}
		}
	}
}

// A forged message ends nothing, and many of them cause one renewal of a claim. A message about a foreign claim is ignored.
func TestForgedBreak(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	heard := alerted(d)
	c := claim("name", "held")
	enter(t, d, c)
	earStands(t, d, c)
	servertest.Until(t, "the client looks once when it listens", func() bool { return len(heard) == 1 })
	drained(heard)
	channel, key := d.clientChannel(c.Client), d.key("name")
	for _, text := range []string{"broken 0  other " + key, "broken 9 x held " + key, "broken -1 held " + key, "broken", "broken 4 mine held " + key} {
		for range 20 {
			s.Redis([]string{"PUBLISH", channel, text})
		}
	}
	last := claim("last", "last") // the last message on the subscription is about this claim
	enter(t, d, last)
	s.Redis([]string{"PUBLISH", channel, "broken 0  last " + d.key("last")})
	var got []string
	for len(got) == 0 || got[len(got)-1] != "last" {
		select {
		case id := <-heard:
			got = append(got, id)
		case <-awake.For(time.Minute):
			t.Fatalf("alerted of %q; want last", got)
		}
	}
	if len(got) > 2 {
		t.Errorf("alerted of %q; want each once", got)
	}
	if r := d.Renew(timely(t), []*driver.Claim{c})[0]; r.Err != nil {
		t.Errorf("renewal = %v; want nil", r.Err)
	}
}

// A client of an older version ignores the message, whether it waits or holds. A holder notices a break at its next renewal.
func TestOldClientBroken(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	before, now := oldClient(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
	holder, waiter := claim("name", "holder"), claim("name", "waiter")
	waiter.Client = "old"
	enter(t, now, holder)
	enter(t, before, waiter)
	listens(t, before, waiter)
	if _, err := now.Break(timely(t), &driver.BreakRequest{Name: "name", Ticket: holder.Ticket, Record: "why"}); err != nil {
		t.Fatal(err)
	}
	if p := await(t, before, waiter); !p.Holds || p.Ticket != waiter.Ticket {
		t.Errorf("the old waiter = %+v; want it to hold", p)
	}
	if _, err := before.Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Enter(timely(t), waiter); err == nil {
		t.Error("a claim that was broken is there")
	}
}

// A client that locks and unlocks at once does not listen. A client that has held ends its subscription when it holds
// nothing.
func TestHoldersListen(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	awake.Lane(t)
	d := open(t, "redis://"+s.Addr)
	d.inboxes.Idle = 500 * time.Millisecond
	channels := func() int {
		list, _ := s.Redis([]string{"PUBSUB", "CHANNELS"}).([]any)
		return len(list)
	}
	for range 100 {
		c := claim("brief", "brief")
		enter(t, d, c)
		leave(t, d, c)
	}
	if n := channels(); n != 0 {
		t.Errorf("%d channels have subscribers though nobody held for long; want 0", n)
	}
	a, b := claim("a", "a"), claim("b", "b")
	b.Client = a.Client
	enter(t, d, a)
	enter(t, d, b)
	earStands(t, d, a)
	if n := channels(); n != 1 {
		t.Errorf("%d channels have subscribers; want 1 for the client", n)
	}
	leave(t, d, a)
	<-awake.For(2 * time.Second)
	if n := channels(); n != 1 {
		t.Errorf("%d channels have subscribers while one claim holds; want 1", n)
	}
	leave(t, d, b)
	servertest.Until(t, "no server has subscribers", func() bool { return channels() == 0 })
}

// A claim that another process renews is forgotten when its lease would be over. Then its client no longer listens for it.
func TestDetachedClaimsAreForgotten(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	d.inboxes.Idle = 100 * time.Millisecond
	detached := claim("detached", "detached")
	detached.TTL = 500 * time.Millisecond
	enter(t, d, detached)
	earStands(t, d, detached)
	servertest.Until(t, "the client listens no longer", func() bool {
		list, _ := s.Redis([]string{"PUBSUB", "CHANNELS"}).([]any)
		return len(list) == 0
	})

	kept := claim("kept", "kept")
	enter(t, d, kept)
	channel, key := d.clientChannel(kept.Client), d.key("detached")
	for i := range 1000 {
		d.breaks.holds(channel, strconv.Itoa(i), key, 0)
	}
	d.breaks.mu.Lock()
	held := d.breaks.clients[channel].held
	if n := len(held); n > 100 || held[heldBy{kept.ID, d.key("kept")}] == nil {
		t.Errorf("%d claims are remembered; want few, and the one that holds among them", n)
	}
	d.breaks.mu.Unlock()
	d.breaks.Needs(channel)
	d.breaks.mu.Lock()
	if n := len(held); n != 1 {
		t.Errorf("%d claims are remembered after a look; want 1", n)
	}
	d.breaks.mu.Unlock()

	for i := range 100 { // clients that lock and unlock
		c := claim("brief", "brief")
		c.Client = "client" + strconv.Itoa(i)
		enter(t, d, c)
		leave(t, d, c)
	}
	servertest.Until(t, "clients that hold nothing are forgotten", func() bool {
		d.breaks.mu.Lock()
		defer d.breaks.mu.Unlock()
		return len(d.breaks.clients) == 1
	})
}
