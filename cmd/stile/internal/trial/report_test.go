package trial

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A clock that was set, and tokens that fell, are found out.
func TestReportOfProbe(t *testing.T) {
	fine := driver.Traits{Store: "x", Fencing: driver.ClockFencing, Granularity: time.Millisecond}
	for _, test := range []struct {
		name  string
		probe *probing
		want  int
	}{
		{"all is well", &probing{rose: true, told: true, drift: 3 * time.Millisecond}, 0},
		{"the clock went ahead", &probing{rose: true, told: true, drift: time.Second}, Warnings},
		{"the clock went back", &probing{rose: true, told: true, drift: -time.Second}, Warnings},
		{"each look took half a second", &probing{rose: true, told: true, drift: time.Second, vague: time.Second}, 0},
		{"the clock shows whole seconds", &probing{rose: true, told: true, drift: time.Second, step: time.Second}, 0},
		{"the clock is not told", &probing{rose: true, drift: time.Second}, 0},
		{"tokens fell", &probing{}, Unfit},
	} {
		r := &report{traits: fine, probe: test.probe}
		if got := r.status(); got != test.want {
			t.Errorf("%s: status %d; want %d", test.name, got, test.want)
		}
	}
}

// A renewing store renews a claim once by itself, a while after it entered, as a lock service does when it begins to listen for breaks.
type renewing struct {
	*memory.Driver
	after time.Duration
}

func (r *renewing) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := r.Driver.Enter(ctx, c)
	if err == nil && c.Ticket == 0 {
		again := *c
		again.Ticket = p.Ticket
		time.AfterFunc(r.after, func() { r.Driver.Renew(context.WithoutCancel(ctx), []*driver.Claim{&again}) })
	}
	return p, err
}

func (r *renewing) Traits() driver.Traits {
	t := r.Driver.Traits()
	t.Clock = "server"
	return t
}

// A renewal that the client does not see is no step of the store's clock.
func TestUnseenRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := stile.New(&renewing{Driver: memory.New(), after: 300 * time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p, err := tryLocks(t.Context(), c, "doctor")
		if err != nil {
			t.Fatal(err)
		}
		if p.drift.Abs() > stepMost || !p.told {
			t.Errorf("the clock strays by %v, told: %v; want a clock that does not", p.drift, p.told)
		}
	})
}

// A hasty store's clock goes twice as fast as this machine's.
type hasty struct {
	*renewing
	link func() // what a look at it waits for
}

func (h *hasty) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	h.link()
	list, err := h.Driver.List(ctx, q)
	for _, l := range list {
		for i := range l.Claims {
			l.Claims[i].Remaining -= probeTTL - l.Claims[i].Remaining
		}
	}
	return list, err
}

// Trap: the watches over a slow link last until the client's own renewal. What the watch before it has found stands.
func TestClockOverSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewing{Driver: memory.New(), after: 300 * time.Millisecond}
		c, err := stile.New(&hasty{store, func() { time.Sleep(100 * time.Millisecond) }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p, err := tryLocks(t.Context(), c, "doctor")
		if err != nil {
			t.Fatal(err)
		}
		if p.drift < clockFor || !p.told {
			t.Errorf("the clock strays by %v, told: %v; want a clock twice as fast", p.drift, p.told)
		}
	})
}
