package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
)

var endedCases = []Case{
	{"EndedBefore", "A context that ended before the call is never the store's refusal: the error is its cause, and " +
		"the outcome is unsent or unknown.", 0, endedBefore},
	{"EndedDuring", "A context that ends during the call is never the store's refusal, whatever its cause.", 0, endedDuring},
	{"Unsent", "A request that is unsent was not applied, and never will be.", 0, unsent},
}

// A trial is one call whose context may end, on a name of its own.
type trial struct {
	what string
	call func(ctx context.Context) error

	// applied asks the store whether it applied the call. It is nil if the store does not show that.
	applied func() bool
}

// trials returns one call of each kind, ready to be made.
func (r *run) trials() []trial {
	r.Helper()
	all := []trial{
		r.entering("enter of a free name", r.apart(), false),
		r.entering("try of a free name", r.apart(), true),
	}
	taken := r.apart()
	r.holds(r.b, taken)
	all = append(all,
		r.entering("enter of a name that is taken", r.beside(taken), false),
		r.entering("try of a name that is taken", r.beside(taken), true))
	waiter := r.beside(taken)
	waiter.Ticket = r.waits(r.a, waiter).Ticket
	all = append(all,
		trial{what: "await", call: func(ctx context.Context) error { _, err := r.a.Await(ctx, waiter); return err }},
		trial{what: "enter of a claim that waits",
			call: func(ctx context.Context) error { _, err := r.a.Enter(ctx, waiter); return err }})
	holder := r.apart()
	holder.Ticket = r.holds(r.a, holder).Ticket
	all = append(all,
		trial{what: "enter of a claim that holds",
			call: func(ctx context.Context) error { _, err := r.a.Enter(ctx, holder); return err }},
		r.renewing(),
		r.leaving("leave", 0),
		r.leaving("leave with keep", 30*time.Second))
	return all
}

// apart returns a new claim on a name of its own.
func (r *run) apart() *driver.Claim {
	c := r.claim()
	c.Name += "/" + c.ID
	return c
}

// beside returns a new claim on the name of another claim.
func (r *run) beside(other *driver.Claim) *driver.Claim {
	c := r.claim()
	c.Name = other.Name
	return c
}

func (r *run) entering(what string, c *driver.Claim, try bool) trial {
	c.Try = try
	return trial{what,
		func(ctx context.Context) error { _, err := r.a.Enter(ctx, c); return err },
		func() bool { return !errors.Is(r.renew(r.a, c).Err, driver.ErrGone) }}
}

// renewing returns a renewal that makes the lease longer. A store that lists leases shows whether the renewal was applied.
func (r *run) renewing() trial {
	c := r.apart()
	c.TTL, c.Wait = time.Minute, time.Minute
	c.Ticket = r.holds(r.a, c).Ticket
	longer := *c
	longer.TTL, longer.Wait = 2*time.Minute, 2*time.Minute
	t := trial{what: "renew", call: func(ctx context.Context) error {
		answers := r.a.Renew(ctx, []*driver.Claim{&longer, &longer})
		if len(answers) != 2 {
			r.Fatalf("renew of 2 claims has %d answers", len(answers))
		}
		for _, a := range answers {
			if a.Err == nil || driver.OutcomeOf(a.Err) != driver.OutcomeUnsent {
				return a.Err // both renewals are for one claim, and one of them was sent
			}
		}
		return answers[0].Err
	}}
	lister, ok := r.b.(driver.Lister)
	if !ok || r.traits.Clock == "session" {
		return t
	}
	left := func() time.Duration {
		list, err := lister.List(r.ctx, &driver.Query{Name: c.Name})
		if err != nil || len(list) != 1 || len(list[0].Claims) != 1 {
			r.Fatalf("list = %+v, %v; want one claim", list, err)
		}
		return list[0].Claims[0].Remaining
	}
	before := left()
	t.applied = func() bool { return left() > before+time.Minute/2 }
	return t
}

func (r *run) leaving(what string, keep time.Duration) trial {
	c := r.apart()
	c.Ticket = r.holds(r.a, c).Ticket
	return trial{what,
		func(ctx context.Context) error { return r.a.Leave(ctx, &driver.Release{Claim: c, Keep: keep}) },
		func() bool { return r.renew(r.a, c).Err != nil }}
}

// causes returns the causes with which a caller's context may end. Some are errors about another claim.
func causes() []error {
	return []error{
		nil, // the context's own
		errors.New("the caller has had enough"),
		fmt.Errorf("another lease is lost: %w", driver.ErrGone),
		fmt.Errorf("another client: %w", driver.ErrClosed),
		fmt.Errorf("another lock: %w", &driver.CapacityError{Have: 2, Want: 3}),
		fmt.Errorf("another store: %w", driver.Refused(errors.New("no"))),
	}
}

// checkEnded checks the outcome of a call whose context has ended.
func (r *run) checkEnded(t *trial, ctx context.Context, err error) {
	r.Helper()
	if err != nil && driver.OutcomeOf(err) == driver.OutcomeRefused {
		r.Errorf("%s with a context that ended as %q = %v, which is %v; want unsent or unknown", t.what,
			context.Cause(ctx), err, driver.OutcomeOf(err))
	}
}

func endedBefore(r *run) {
	for _, cause := range causes() {
		ctx, cancel := context.WithCancelCause(r.ctx)
		cancel(cause)
		for _, t := range r.trials() {
			err := t.call(ctx)
			r.checkEnded(&t, ctx, err)
			if err != nil && !errors.Is(err, context.Cause(ctx)) { // a call may end before it checks its context
				r.Errorf("%s with a context that ended as %q = %v; want the cause", t.what, context.Cause(ctx), err)
			}
		}
	}
}

// endedRounds is how often the context of each call ends at another moment.
const endedRounds = 8

func endedDuring(r *run) {
	r.interrupt(func(t *trial, ctx context.Context, err error) { r.checkEnded(t, ctx, err) })
}

func unsent(r *run) {
	type request struct {
		trial
		err error
	}
	var never []request
	note := func(t *trial, _ context.Context, err error) {
		if err == nil || driver.OutcomeOf(err) != driver.OutcomeUnsent || t.applied == nil {
			return
		}
		if t.applied() {
			r.Errorf("%s is unsent (%v), and was applied", t.what, err)
			return
		}
		never = append(never, request{*t, err})
	}
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	for _, t := range r.trials() {
		note(&t, ended, t.call(ended))
	}
	r.interrupt(note)
	for range 20 {
		poll(r.ctx) // for requests that may still be on their way
	}
	for _, q := range never {
		if q.applied() {
			r.Errorf("%s is unsent (%v), and was applied later", q.what, q.err)
		}
	}
}

// interrupt ends the contexts of calls at moments between their beginning and their end.
func (r *run) interrupt(see func(t *trial, ctx context.Context, err error)) {
	took := make([]time.Duration, len(r.trials()))
	for round := range endedRounds {
		for i, t := range r.trials() {
			ctx, cancel := context.WithCancelCause(r.ctx)
			switch {
			case round == 0 && t.what == "await": // which ends only with its context
				took[i] = 20 * time.Millisecond
				cancel(nil)
			case round == 0: // to see how long it takes
				start := time.Now()
				if err := t.call(ctx); err != nil {
					r.Fatalf("%s = %v; want nil", t.what, err)
				}
				took[i] = time.Since(start)
				cancel(nil)
				continue
			}
			timer := time.AfterFunc(rand.N(took[i]+1),
				func() { cancel(fmt.Errorf("another lease is lost: %w", driver.ErrGone)) })
			err := t.call(ctx)
			timer.Stop()
			if ctx.Err() != nil {
				see(&t, ctx, err)
			}
			cancel(nil)
		}
	}
}
