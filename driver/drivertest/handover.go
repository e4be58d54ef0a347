package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

var handoverCases = []Case{
	{"AwaitOfMany",
		"Await returns when the place may have changed, whatever the client's other claims were told meanwhile.",
		ordered, awaitOfMany},
	{"AwaitWhileOthersComeAndGo", "No claim that waits sleeps past a hand-over.", ordered, awaitAmongOthers},
}

// sleeps is the time, in slacks, after which a waiting claim has missed its turn. No claim asks again by the clock here, so
// a lost notification stays lost.
const sleeps = 20

// turnOnly is turn by notifications only: the claim enters again when Await returns, or at the time of Place.Retry.
func (r *run) turnOnly(ctx context.Context, d driver.Driver, c *driver.Claim, p driver.Place) (driver.Place, error) {
	for {
		if p.Holds {
			return p, nil
		}
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if p.Retry > 0 {
			waiting, cancel = context.WithTimeout(ctx, p.Retry+time.Millisecond)
		}
		told, err := d.Await(waiting, c)
		ended := waiting.Err() != nil
		cancel()
		if err == nil && told.Holds {
			return told, nil
		}
		if err != nil && (!ended || ctx.Err() != nil) {
			return told, err
		}
		if p, err = r.reentered(ctx, d, c); err != nil {
			return p, err
		}
	}
}

// reentered repeats Enter while the store cannot be reached, for example because other clients were always faster.
func (r *run) reentered(ctx context.Context, d driver.Driver, c *driver.Claim) (p driver.Place, err error) {
	err = r.patiently(ctx, func() error {
		p, err = d.Enter(ctx, c)
		return err
	})
	return p, err
}

// left repeats Leave while the store cannot be reached. ErrGone after the first call is a success: an unanswered call has
// removed the claim.
func (r *run) left(ctx context.Context, d driver.Driver, c *driver.Claim) error {
	return removed(func(call func() error) error { return r.patiently(ctx, call) },
		func() error { return d.Leave(ctx, &driver.Release{Claim: c}) })
}

// removed makes calls of Leave. After a call without an answer, ErrGone says that this call has removed the claim.
func removed(repeat func(call func() error) error, leave func() error) error {
	asked := 0
	err := repeat(func() error {
		asked++
		return leave()
	})
	if asked > 1 && errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

func (r *run) patiently(ctx context.Context, call func() error) error {
	for {
		err := call()
		if err == nil || !driver.IsUnreachable(err) || !poll(ctx) {
			return err
		}
	}
}

// awaitOfMany lets the claims of one client begin to listen at different moments. A message from before a claim listens may
// have gone to another claim, and yet this claim must learn of the change.
func awaitOfMany(r *run) {
	for _, n := range []int{2, 3, 8} {
		ctx, cancel := context.WithTimeout(r.ctx, sleeps*r.store.Slack)
		holder, other := r.claim(), r.claim()
		r.holds(r.a, holder)
		r.waits(r.a, other)
		claims, places := make([]*driver.Claim, n), make([]driver.Place, n)
		for i := range claims {
			claims[i] = r.claim()
			places[i] = r.waits(r.b, claims[i])
			claims[i].Ticket = places[i].Ticket
		}
		// The claims that do not listen yet miss all of this. The last claim asks after it.
		r.leave(r.a, other)
		r.leave(r.a, holder)
		places[n-1] = r.waits(r.b, claims[n-1])
		ends := make([]chan error, n)
		for i := n - 1; i >= 0; i-- {
			ends[i] = make(chan error, 1)
			go func() {
				_, err := r.turnOnly(ctx, r.b, claims[i], places[i])
				ends[i] <- err
			}()
			for range 10 {
				poll(ctx) // so that, mostly, the claim listens before the next one does
			}
		}
		for i, ended := range ends {
			if err := <-ended; err != nil {
				r.Fatalf("the claim at place %d of the %d of one client = %v; want its turn", i, n, err)
			}
			r.leave(r.b, claims[i])
		}
		cancel()
	}
}

// awaitAmongOthers hands a lock round among claims of one client, while claims of another client come and go.
func awaitAmongOthers(r *run) {
	for _, n := range []int{2, 3, 8} {
		ctx, cancel := context.WithTimeout(r.ctx, sleeps*r.store.Slack)
		first := r.claim()
		r.holds(r.a, first)
		var waiters, others sync.WaitGroup
		for range n {
			c := r.claim()
			p := r.waits(r.b, c)
			waiters.Go(func() {
				if err := r.rounds(ctx, c, p); err != nil {
					r.Errorf("of %d claims of one client one = %v; want its turn", n, err)
				}
			})
		}
		over, stop := context.WithCancel(ctx)
		for range 2 {
			others.Go(func() { r.comeAndGo(over) })
		}
		if err := r.left(ctx, r.a, first); err != nil {
			r.Errorf("leave of the first = %v; want nil", err)
		}
		waiters.Wait()
		stop()
		others.Wait()
		cancel()
	}
}

// rounds waits for the turn of a claim, puts the next one into the queue before that leaves, and so on.
func (r *run) rounds(ctx context.Context, c *driver.Claim, p driver.Place) error {
	for left := 4; ; left-- {
		c.Ticket = p.Ticket
		_, err := r.turnOnly(ctx, r.b, c, p)
		if err != nil {
			return err
		}
		next := r.claim()
		if left > 0 {
			if p, err = r.reentered(ctx, r.b, next); err != nil {
				return err
			}
		}
		if err = r.left(ctx, r.b, c); err != nil || left == 0 {
			return err
		}
		c = next
	}
}

// comeAndGo puts claims into the queue that usually leave before their turn.
func (r *run) comeAndGo(over context.Context) {
	for poll(over) {
		c := r.claim()
		if _, err := r.reentered(r.ctx, r.a, c); err != nil {
			r.Errorf("enter of one that comes and goes = %v; want nil", err)
			return
		}
		if err := r.left(r.ctx, r.a, c); err != nil {
			r.Errorf("leave of one that comes and goes = %v; want nil", err)
			return
		}
	}
}
