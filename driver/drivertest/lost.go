package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

var lostCases = []Case{
	{"LostEnter", "An Enter whose answer is lost has an unknown outcome, and the claim is found once by the next Enter.", 0, lostEnter},
	{"LostRenew", "A renewal whose answer is lost has an unknown outcome, and may be repeated, unless the claim went with its connection.", 0, lostRenew},
	{"LostLeave", "A Leave whose answer is lost has an unknown outcome, also the second time, and repeating it touches nobody else's claim.", 0, lostLeave},
	{"LostMidway", "A request whose answer is lost while its client waits, wherever on the way, is no refusal, and is confirmed only by an answer.",
		0, lostMidway},
	{"LostCapacity", "An Enter that finds a queue of another capacity, and whose answer is lost, lets no more hold there than before.",
		permits | ordered, lostCapacity},
	{"LostConnection", "A claim that went with its client's connection stays gone, also if nobody has the name any more.", 0, lostConnection},
}

// lost makes a call whose answers are lost with their connection, and checks that the driver does not report a refusal.
func (r *run) lost(on *Detour, verb string, call func(context.Context) error) {
	r.Helper()
	on.Freeze(false, true)
	ctx, cancel := context.WithTimeout(r.ctx, heldUp)
	err := call(ctx)
	cancel()
	on.Drop()
	if err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused {
		r.Errorf("%s whose answer is lost = %v (%v); want an outcome that is unknown, or unsent", verb, err, driver.OutcomeOf(err))
	}
}

// warmed opens a client of a detour, and lets it make the requests that precede its first claim.
func (r *run) warmed() *Detour {
	r.Helper()
	on := r.store.detour(r)
	first := r.claim()
	first.Ticket = r.holds(on, first).Ticket
	r.until(recovers, "the claim is out", func() bool { return r.out(on, first) && r.free() })
	return on
}

func lostEnter(r *run) {
	on, c := r.warmed(), r.claim()
	r.lost(on, "enter", func(ctx context.Context) error { _, err := on.Enter(ctx, c); return err })
	r.until(recovers, "the claim holds", func() bool {
		p, err := on.Enter(r.ctx, c)
		c.Ticket = p.Ticket
		return err == nil && p.Holds
	})
	if lister, ok := r.b.(driver.Lister); ok {
		r.until(r.store.Slack, "the name has one claim", func() bool {
			list, err := lister.List(r.ctx, &driver.Query{Name: r.name})
			return err == nil && len(list) == 1 && len(list[0].Claims) == 1
		})
	}
	r.leave(on, c)
	r.until(r.store.Slack, "the name is free", r.free)
}

func lostRenew(r *run) {
	on := r.warmed()
	c := r.holder(on)()
	r.lost(on, "renewal", func(ctx context.Context) error { return on.Renew(ctx, []*driver.Claim{c})[0].Err })
	var err error
	r.until(recovers, "the claim is renewed", func() bool {
		err = r.renew(on, c).Err
		return err == nil || r.traits.OwnClient && errors.Is(err, driver.ErrSession)
	})
	if err != nil { // it ended with its client's connection
		r.until(recovers, "the name is free", r.free)
		return
	}
	if r.free() {
		r.Errorf("the name is free; want the claim to hold")
	}
	r.leave(on, c)
}

func lostLeave(r *run) {
	on := r.warmed()
	c, next := r.holder(on)(), r.claim()
	r.lost(on, "leave", func(ctx context.Context) error {
		if err := on.Leave(ctx, &driver.Release{Claim: c}); err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused {
			return err
		}
		again, cancel := context.WithTimeout(r.ctx, heldUp)
		defer cancel()
		return on.Leave(again, &driver.Release{Claim: c}) // no answer since then proves that it is gone
	})
	r.until(recovers, "the claim is out", func() bool { return r.out(on, c) })
	r.until(recovers, "the next claim holds", func() bool {
		p, err := r.b.Enter(r.ctx, next)
		next.Ticket = p.Ticket
		return err == nil && p.Holds
	})
	if !r.out(on, c) {
		r.Errorf("the third leave failed; want nil or ErrGone")
	}
	if err := r.renew(r.b, next).Err; err != nil || r.free() {
		r.Errorf("the next claim does not stand any more: %v", err)
	}
	r.leave(r.b, next)
}

// lostConnection breaks a client's connection while its claim holds. If another claim then holds, the first must not come
// back.
func lostConnection(r *run) {
	on := r.warmed()
	c, other := r.holder(on)(), r.claim()
	other.Try = true
	on.Freeze(true, true)
	on.Drop()
	taken := false
	for start := time.Now(); !taken && time.Since(start) < r.store.Slack && poll(r.ctx); {
		taken = r.enter(r.b, other).Holds
	}
	if !taken { // the claim is in the store
		r.until(recovers, "the claim is out", func() bool { return r.out(on, c) })
		return
	}
	r.leave(r.b, other)
	var err error
	r.until(recovers, "the claim is renewed, or gone", func() bool {
		err = r.renew(on, c).Err
		return err == nil || errors.Is(err, driver.ErrGone)
	})
	if err == nil {
		r.Errorf("the claim is renewed, though another has held since; want ErrGone")
		r.leave(on, c)
	}
}

// lostCapacity lets a client that recently waited ask for the name, which meanwhile has a smaller capacity. In each round
// the answer to another message is lost.
func lostCapacity(r *run) {
	const capacity, was = 3, 5
	on := r.warmed()
	for through, after := false, 0; !through; after++ {
		r.waited(on, r.permit(1, was))
		holder, c := r.permit(capacity, capacity), r.permit(1, was)
		r.holds(r.b, holder)
		through = r.unanswered(on, after, func(ctx context.Context) { _, _ = on.Enter(ctx, c) })
		var line []*driver.Claim
		for range capacity + 1 {
			next := r.permit(1, capacity)
			p, err := r.b.Enter(r.ctx, next)
			if _, refused := errors.AsType[*driver.CapacityError](err); refused {
				continue // because of the claim whose answer was lost
			}
			if err != nil || p.Holds {
				r.Fatalf("enter = %+v, %v; want a claim that waits", p, err)
			}
			next.Ticket = p.Ticket
			line = append(line, next)
		}
		r.leave(r.b, holder)
		holding := 0
		for _, next := range line {
			if r.enter(r.b, next).Holds {
				holding++
			}
		}
		if holding > capacity {
			r.Errorf("%d claims hold a permit each of %d", holding, capacity)
		}
		for _, next := range line {
			r.leave(r.b, next)
		}
		on.Arrive()
		r.until(recovers, "the claim is out", func() bool { return r.out(on, c) && r.free() })
	}
}
