package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

var lateCases = []Case{
	{"LateEnter", "An Enter that arrives after the client's own next claim of that name does not touch that claim.",
		0, lateEnter},
	{"LateEnterLostLeave", "An Enter that arrives after a Leave that got no answer is taken out by the client's next Leave.", 0,
		lateEnterLostLeave},
	{"LateLeave", "A Leave that arrives after the client's own next claim of that name does not touch that claim.", 0,
		lateLeave},
	{"LateRenew", "A renewal that arrives after the client's own next claim of that name does not touch that claim.",
		0, lateRenew},
}

const (
	heldUp    = 200 * time.Millisecond // how long a caller waits for the answer to a request that is held up
	afterward = 200 * time.Millisecond // how long the store is watched after such a request arrived
	recovers  = 30 * time.Second       // when a client is through to the store again, at the latest
)

func lateEnter(r *run) {
	on := r.store.detour(r)
	// Some drivers prepare what the next claim needs: then the request that is held up is the claim's own.
	before := r.claim()
	r.holds(on, before)
	r.leave(on, before)

	first := r.claim()
	r.heldUp(on, "enter", func(ctx context.Context) error {
		_, err := on.Enter(ctx, first)
		return err
	})
	r.lateFor(on, first)
}

func lateEnterLostLeave(r *run) {
	on := r.store.detour(r)
	first := r.claim()
	r.heldUp(on, "enter", func(ctx context.Context) error {
		_, err := on.Enter(ctx, first)
		return err
	})
	on.Freeze(true, false)
	ctx, cancel := context.WithTimeout(r.ctx, heldUp)
	defer cancel()
	// Whatever it says, and whatever the client does now about a claim of which it does not know what became.
	_ = on.Leave(ctx, &driver.Release{Claim: first})
	on.Drop()
	r.lateFor(on, first)
}

func lateLeave(r *run) {
	on := r.store.detour(r)
	first := r.claim()
	first.Ticket = r.holds(on, first).Ticket
	r.heldUp(on, "leave", func(ctx context.Context) error {
		return on.Leave(ctx, &driver.Release{Claim: first})
	})
	r.lateFor(on, first)
}

func lateRenew(r *run) {
	on := r.store.detour(r)
	first := r.claim()
	first.Ticket = r.holds(on, first).Ticket
	r.heldUp(on, "renewal", func(ctx context.Context) error {
		return on.Renew(ctx, []*driver.Claim{first})[0].Err
	})
	r.lateFor(on, first)
}

// heldUp makes a call whose request does not arrive before its caller gives up.
func (r *run) heldUp(on *Detour, verb string, call func(context.Context) error) {
	r.Helper()
	on.Hold()
	ctx, cancel := context.WithTimeout(r.ctx, heldUp)
	defer cancel()
	err := call(ctx)
	on.Pass()
	if err == nil {
		r.Fatalf("%s, whose request is held up = nil; want an error", verb)
	}
}

// lateFor takes a claim out that has a request on its way, and sees what that does to the client's next claim.
func (r *run) lateFor(on *Detour, first *driver.Claim) {
	r.Helper()
	out := func() bool {
		err := on.Leave(r.ctx, &driver.Release{Claim: first})
		return err == nil || errors.Is(err, driver.ErrGone)
	}
	r.until(recovers, "the client knows that its claim is out", out)
	next := r.claim()
	r.until(recovers, "the client's next claim holds", func() bool {
		p, err := on.Enter(r.ctx, next)
		next.Ticket = p.Ticket
		return err == nil && p.Holds
	})
	on.Arrive()
	r.during(afterward, "the next claim stands, and keeps others out", func() bool {
		return r.renew(on, next).Err == nil && !r.free()
	})
	if p := r.holds(on, next); p.Ticket != next.Ticket {
		r.Errorf("the next claim has ticket %d; want %d", p.Ticket, next.Ticket)
	}
	r.leave(on, next)
	// An Enter that comes late leaves its claim behind. Its client looks for that, by the claim's own id.
	r.until(r.store.Slack, "the name is free", func() bool { return out() && r.free() })
}
