//go:build unix

package casqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/casqueue"
	"github.com/stilelock/stile/driver/drivertest"
)

// coarse is files with a clock of whole seconds.
type coarse struct{ files }

func (c coarse) Get(ctx context.Context, name string) (casqueue.Value, error) {
	v, err := c.files.Get(ctx, name)
	v.Now = v.Now.Truncate(time.Second)
	return v, err
}

func (c coarse) Traits() driver.Traits {
	t := c.files.Traits()
	t.Granularity, t.MinTTL = time.Second, 3*time.Second
	return t
}

// telling is an exchanger of such files. Without a request it knows their clock only from earlier answers.
type telling struct {
	coarse
	shown           atomic.Int64
	looks, exchange atomic.Int64 // requests
}

func newTelling(t testing.TB) *telling {
	s := &telling{coarse: coarse{files{t.TempDir()}}}
	s.shown.Store(int64(clock().Truncate(time.Second)))
	return s
}

func (s *telling) Look(ctx context.Context, name string, seen casqueue.Version) (casqueue.Value, error) {
	s.looks.Add(1)
	return s.look(ctx, name, seen)
}

func (s *telling) look(ctx context.Context, name string, seen casqueue.Version) (casqueue.Value, error) {
	v, err := s.Get(ctx, name)
	if v.Version == seen {
		v.Text = nil
	}
	s.shown.Store(max(s.shown.Load(), int64(v.Now)))
	return v, err
}

func (s *telling) Exchange(ctx context.Context, d *casqueue.Draft) (casqueue.Value, bool, error) {
	s.exchange.Add(1)
	made, err := s.Swap(ctx, d.Name, d.Was, d.Text)
	if err != nil {
		return casqueue.Value{}, false, err
	}
	v, err := s.look(ctx, d.Name, "")
	return v, made, err
}

func (s *telling) Clock() time.Duration { return time.Duration(s.shown.Load()) }

// slack is for leases of whole seconds, which end up to four seconds late.
const slack = 6 * time.Second

func TestContractOfCoarseClock(t *testing.T) {
	t.Parallel()
	c := coarse{files{t.TempDir()}}
	drivertest.Run(t, drivertest.Store{Open: func(testing.TB) driver.Driver { return casqueue.New(c) }, Slack: slack})
}

func TestContractOfExchanger(t *testing.T) {
	t.Parallel()
	folder := newTelling(t).coarse
	drivertest.Run(t, drivertest.Store{Open: func(t testing.TB) driver.Driver {
		s := newTelling(t)
		s.coarse = folder
		return casqueue.NewExchanging(s)
	}, Slack: slack})
}

// drafting remembers how long after the shown time the claims of the last draft end.
type drafting struct {
	*telling
	ends time.Duration
}

func (s *drafting) Exchange(ctx context.Context, d *casqueue.Draft) (casqueue.Value, bool, error) {
	s.ends = d.Ends - s.Clock()
	return s.telling.Exchange(ctx, d)
}

// TestNoLeaseEndsEarly checks that leases are three steps longer than requested. The clock may show one step more by now, be
// almost at the next step, and skip a step later.
func TestNoLeaseEndsEarly(t *testing.T) {
	t.Parallel()
	s := &drafting{telling: newTelling(t)}
	d := casqueue.NewExchanging(s)
	defer d.Close()
	c := claim("name", 1)
	c.TTL = 3 * time.Second
	if p, err := d.Enter(t.Context(), c); err != nil || !p.Holds || p.TTL != c.TTL {
		t.Fatalf("enter = %+v, %v; want a lease of %v", p, err, c.TTL)
	}
	if want := c.TTL + 3*time.Second; s.ends < want {
		t.Errorf("the lease is %v longer than what the clock showed; want %v", s.ends, want)
	}
	if got := d.Traits().Granularity; got != 0 {
		t.Errorf("leases end up to %v early; want none to", got)
	}
}

// TestRequests counts the requests to an exchanger.
func TestRequests(t *testing.T) {
	s := newTelling(t)
	d, other := casqueue.NewExchanging(s), casqueue.NewExchanging(s)
	asked := func(what string, looks, exchanges int64) {
		t.Helper()
		if got, made := s.looks.Swap(0), s.exchange.Swap(0); got != looks || made != exchanges {
			t.Errorf("%s is %d looks and %d exchanges; want %d and %d", what, got, made, looks, exchanges)
		}
	}
	enter := func(d driver.Driver, c *driver.Claim) {
		t.Helper()
		p, err := d.Enter(t.Context(), c)
		if c.Ticket = p.Ticket; err != nil || p.TTL > c.TTL || p.TTL < c.TTL-2*time.Second {
			t.Errorf("enter = %+v, %v; want the lease that it asked for", p, err)
		}
	}
	first, second := claim("name", 1), claim("name", 2)
	enter(d, first)
	asked("to enter a name that is free", 0, 1)
	if r := d.Renew(t.Context(), []*driver.Claim{first})[0]; r.Err != nil {
		t.Error(r.Err)
	}
	s.looks.Store(0)
	s.exchange.Store(0) // a renewal within the same second may or may not change the value
	enter(other, second)
	asked("to enter a name that another client has changed", 0, 2)
	if err := d.Leave(t.Context(), &driver.Release{Claim: first}); err != nil {
		t.Error(err)
	}
	asked("to leave a name that another client has changed", 0, 2)
	if p, err := other.Await(t.Context(), second); err != nil || !p.Holds || p.Ticket <= first.Ticket {
		t.Errorf("await = %+v, %v; want it to hold with a ticket above %d", p, err, first.Ticket)
	}
	asked("to find that it holds", 1, 0)
	if err := other.Leave(t.Context(), &driver.Release{Claim: second}); err != nil {
		t.Error(err)
	}
	asked("to leave", 0, 2)
	if err := other.Leave(t.Context(), &driver.Release{Claim: second}); err == nil {
		t.Error("it left twice")
	}
	asked("to find that it is gone", 1, 0)
}

// TestLookers checks that one goroutine polls for all waiters of a name.
func TestLookers(t *testing.T) {
	s := newTelling(t)
	d := casqueue.NewExchanging(s)
	defer d.Close()
	const waiters = 50
	for i := range waiters + 1 {
		if _, err := d.Enter(t.Context(), claim("name", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.looks.Store(0)
	start := time.Now()
	told := make(chan error, waiters)
	for i := range waiters {
		go func() {
			p, err := d.Await(t.Context(), claim("name", i+1))
			if err == nil && !p.Holds {
				err = fmt.Errorf("claim %d was told %+v", i+1, p)
			}
			told <- errors.Join(err, d.Leave(t.Context(), &driver.Release{Claim: claim("name", i+1)}))
		}()
	}
	if err := d.Leave(t.Context(), &driver.Release{Claim: claim("name", 0)}); err != nil {
		t.Fatal(err)
	}
	for range waiters {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	// Each waiter causes a look when it comes and one when the waiter before it leaves; besides, there is at most one look a
	// millisecond.
	if looks, most := s.looks.Load(), 4*waiters+time.Since(start).Milliseconds(); looks > most {
		t.Errorf("%d looks for %d who wait; want at most %d", looks, waiters, most)
	}
}
