package drivertest

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// A Failover is a store that nobody else uses, and in which a second server takes over when the first stands still.
type Failover struct {
	// Open connects one more client to the store. The client finds the server that took over. It should wait long for
	// answers: after the client gives a request up, the case learns nothing from the request. The suite closes the client.
	Open func() driver.Driver

	// StandsStill is called once. From then on the first server does not answer. The second server has all its data.
	StandsStill func()

	// TakesOver returns when the second server has taken over, and all clients know.
	TakesOver func()

	// GoesOn lets the first server go on with the requests that arrived meanwhile. It does not know yet that the second has
	// taken over.
	GoesOn func()
}

var failoverCases = []Case{
	{"Deposed", "A server that stood still until another took over grants nothing to anybody, and a claim that waits is told by the other.",
		0, deposed},
}

func deposed(r *run) {
	if r.store.Failover == nil {
		return
	}
	f := r.store.Failover(r)
	open := func() driver.Driver {
		d := f.Open()
		r.Cleanup(func() { d.Close() })
		return d
	}
	holder, listener, late, next := open(), open(), open(), open()
	held, waiter, brief := r.claim(), r.claim(), r.brief()
	held.Ticket = r.holds(holder, held).Ticket
	waiter.Ticket = r.waits(listener, waiter).Ticket
	brief.Name += "/brief"
	r.holds(holder, brief)
	r.tries(late, brief)

	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	told := make(chan error, 1)
	go func() { told <- r.toldOnly(ctx, listener, waiter) }()
	for range 5 {
		r.pauses() // so that it listens
	}
	f.StandsStill()
	granted := make(chan bool, 1)
	go func() {
		_, holds := r.tries(late, brief)
		granted <- holds
	}()
	r.pauses() // so that this is sent
	f.TakesOver()

	taken := r.claim()
	taken.Name = brief.Name
	r.until(recovers, "another holds what has run out", func() bool {
		p, err := next.Enter(r.ctx, taken)
		return err == nil && p.Holds
	})
	r.until(recovers, "the claim that holds is renewed", func() bool { return r.renew(holder, held).Err == nil })
	r.leave(holder, held)
	bound, stop := context.WithTimeout(r.ctx, recovers)
	defer stop()
	select {
	case err := <-told:
		if err != nil {
			r.Fatalf("the claim that waits = %v; want its turn", err)
		}
	case <-bound.Done():
		r.Fatalf("the claim that waits is not told by the server that took over")
	}
	f.GoesOn()
	if <-granted {
		r.Errorf("a try that was sent to the server that was replaced holds, beside the claim at the one that took over")
	}
	if err := r.renew(next, taken).Err; err != nil {
		r.Errorf("renewal of what holds at the server that took over = %v; want nil", err)
	}
}

// toldOnly waits for a claim's turn by notifications only, even while the store is out of reach.
func (r *run) toldOnly(ctx context.Context, d driver.Driver, c *driver.Claim) error {
	for p := (driver.Place{}); ; {
		_, err := r.turnOnly(ctx, d, c, p)
		if err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) {
			return err
		}
		if p, err = d.Enter(ctx, c); err == nil && p.Holds || !poll(ctx) {
			return ctx.Err()
		}
	}
}
