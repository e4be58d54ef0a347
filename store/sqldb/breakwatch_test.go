package sqldb

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// A withSignal is a client of a table that sends wakeups. Each call of Listen lasts five seconds.
type withSignal struct {
	client
	wakes chan string           // clients that are woken
	hears atomic.Int64          // calls of Listen
	looks atomic.Int64          // calls of Gone
	fails atomic.Int64          // the number of the next of those calls that fail
	after func(d time.Duration) // lets time pass, and its effects happen
}

func (b *withSignal) Wake(clients []string) {
	for _, c := range clients {
		b.wakes <- c
	}
}

func (b *withSignal) Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func()) {
	b.hears.Add(1)
	recheck()
	for ctx.Err() == nil && wanted() {
		select {
		case c := <-b.wakes:
			if c != client { // this client does not listen
				continue
			}
			woken()
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
		recheck()
	}
}

func (b *withSignal) Gone(_ context.Context, claims []Waiting) (ids []string, err error) {
	b.looks.Add(1)
	if b.fails.Add(-1) >= 0 {
		return nil, driver.Unreachable(errors.New("out of reach"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range claims {
		if !slices.ContainsFunc(b.queue(c.Name).Entries, func(e driver.Entry) bool { return e.ID == c.ID }) {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

func (*withSignal) Traits() driver.Traits {
	t := client{}.Traits()
	t.HearsBreak = true
	return t
}

// eared runs a test with a driver that is alerted, and logs the client's state.
func eared(t *testing.T, test func(t *testing.T, d *Driver, b *withSignal, alerted *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		b := &withSignal{client: client{&table{queues: map[string]*driver.Queue{}}}, wakes: make(chan string, 1000)}
		b.after = func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		d := Over(b)
		defer d.Close()
		var alerted []string
		d.Alert(func(ids ...string) { alerted = append(alerted, ids...) })
		test(t, d, b, &alerted)
	})
}

// held enters a claim of client "a", which must hold.
func held(t *testing.T, d *Driver, name string) *driver.Claim {
	t.Helper()
	return heldBy(t, d, "a", name)
}

func heldBy(t *testing.T, d *Driver, client, name string) *driver.Claim {
	t.Helper()
	c := &driver.Claim{Name: name, ID: "id of " + name, Client: client, Weight: driver.All, Capacity: driver.All, TTL: time.Hour, Wait: time.Hour}
	p, err := d.Enter(t.Context(), c)
	if err != nil || !p.Holds {
		t.Fatalf("Enter = %+v, %v; want to hold", p, err)
	}
	c.Ticket = p.Ticket
	return c
}

// Short locks cost nothing, however many there are, and a driver without alerts does not listen.
func TestShortHoldsDoNotListen(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, _ *[]string) {
		for range 50 {
			c := held(t, d, "x")
			b.after(listenAfter - time.Millisecond)
			if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Fatal(err)
			}
		}
		b.after(2 * listenAfter)
		d.poll.breaks.endanger.Store(nil)
		held(t, d, "y")
		b.after(time.Minute)
		if hears, looks := b.hears.Load(), b.looks.Load(); hears != 0 || looks != 0 {
			t.Errorf("heard %d times and looked %d times; want neither", hears, looks)
		}
	})
}

// A driver notices a break before it listens, by another client or by its own, and does not alert its client of other
// claims.
func TestBreakIsHeard(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, alerted *[]string) {
		held(t, d, "spared")
		for _, idle := range []time.Duration{0, listenAfter, time.Minute} {
			*alerted = nil
			c := held(t, d, "x")
			b.after(idle)
			if _, err := d.Break(t.Context(), &driver.BreakRequest{Name: "x", Ticket: c.Ticket}); err != nil {
				t.Fatal(err)
			}
			b.after(listenAfter + standEvery)
			if !slices.Equal(*alerted, []string{c.ID}) {
				t.Errorf("after %v idle: alerted of %q; want %q", idle, *alerted, c.ID)
			}
		}
	})
}

// A driver with claims of several clients, as in a lock service, listens for one client, and checks the claims of the others
// twice a second, while there are any.
func TestBreakIsHeardByEach(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, alerted *[]string) {
		held(t, d, "spared")
		b.after(time.Minute)
		before := b.looks.Load()
		b.after(4 * time.Second)
		if n := b.looks.Load() - before; n > 1 { // a client that begins to listen checks once more
			t.Errorf("%d looks in four seconds, and there is one client; want one at most", n)
		}
		for _, idle := range []time.Duration{listenAfter, time.Minute} {
			*alerted = nil
			c := heldBy(t, d, "b", "x")
			b.after(idle)
			if _, err := d.Break(t.Context(), &driver.BreakRequest{Name: "x", Ticket: c.Ticket}); err != nil {
				t.Fatal(err)
			}
			b.after(500*time.Millisecond + listenAfter)
			if !slices.Equal(*alerted, []string{c.ID}) {
				t.Errorf("after %v idle: alerted of %q; want %q", idle, *alerted, c.ID)
			}
		}
	})
}

// Forged wakeups end nothing and cost four checks a second, and a real break among them is noticed within half a second.
func TestForgedWakes(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, alerted *[]string) {
		c := held(t, d, "x")
		b.after(time.Minute)
		before := b.looks.Load()
		for range 1000 {
			b.Wake([]string{"a"})
			b.after(time.Millisecond)
		}
		if n := b.looks.Load() - before; n > 5 || len(*alerted) > 0 {
			t.Errorf("%d looks in a second, alerted of %q; want 4 or 5 and of nothing", n, *alerted)
		}
		if _, err := d.Break(t.Context(), &driver.BreakRequest{Name: "x", Ticket: c.Ticket}); err != nil {
			t.Fatal(err)
		}
		b.after(500 * time.Millisecond)
		if !slices.Equal(*alerted, []string{c.ID}) {
			t.Errorf("alerted of %q; want %q", *alerted, c.ID)
		}
	})
}

// A check that does not reach the database is repeated. After other errors the next renewals decide.
func TestLookThatFails(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, _ *[]string) {
		held(t, d, "x")
		b.fails.Store(1)
		b.after(listenAfter)
		if b.fails.Load() > 0 {
			t.Fatal("nobody has looked")
		}
		before := b.looks.Load()
		b.after(standAgain)
		if b.looks.Load() == before {
			t.Error("nobody looks again")
		}
	})
}

// A claim that its client left to another process is remembered no longer than it can last, and the driver does not listen
// for it for ever.
func TestDetachedClaimIsForgotten(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, _ *[]string) {
		for range 1000 {
			c := &driver.Claim{Name: "x", ID: time.Now().String(), Client: "a", TTL: -1}
			d.Holds(c, 1) // it is over
			b.after(time.Nanosecond)
		}
		if n := len(d.poll.breaks.held); n > 200 {
			t.Errorf("%d claims are remembered that are over", n)
		}
		c := held(t, d, "y")
		b.after(time.Minute)
		if n := b.hears.Load(); n != 1 || !d.poll.busy() {
			t.Fatalf("heard %d times; want once, and still", n)
		}
		d.Holds(&driver.Claim{Name: c.Name, ID: c.ID, TTL: -time.Second}, c.Ticket)
		b.after(time.Minute)
		if d.poll.hearing() {
			t.Error("somebody listens for a claim that is over")
		}
	})
}

// A driver listens for a claim that it renews, whichever client entered it, but not for one that waits, has left or is gone.
func TestRenewedClaimIsHeardFor(t *testing.T) {
	eared(t, func(t *testing.T, d *Driver, b *withSignal, _ *[]string) {
		other := Over(b.client)
		defer other.Close()
		c := held(t, other, "x")
		c.Wait = time.Minute
		waits := *c
		waits.ID, waits.Ticket = "waits", 0
		p, err := other.Enter(t.Context(), &waits)
		if err != nil {
			t.Fatal(err)
		}
		waits.Ticket = p.Ticket
		for _, a := range d.Renew(t.Context(), []*driver.Claim{c, &waits}) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		if e := d.poll.breaks; len(e.held) != 1 || e.held[c.ID] == nil {
			t.Errorf("heard for %v; want the holder", e.held)
		}
		if err := other.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
			t.Fatal(err)
		}
		if a := d.Renew(t.Context(), []*driver.Claim{c})[0]; !errors.Is(a.Err, driver.ErrGone) {
			t.Fatal(a.Err)
		}
		if e := d.poll.breaks; len(e.held) != 0 {
			t.Errorf("heard for %v; want nothing", e.held)
		}
	})
}
