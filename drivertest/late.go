package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Detour is a client of the store whose requests can be held up on their way, by a network that loses nothing.
type Detour struct {
	driver.Driver // closed by the suite
	Way
}

// A Way is what stands between a client and its store.
type Way interface {
	Hold()   // from now on, requests that change the store are held up
	Pass()   // later requests arrive again; the held ones do not yet
	Arrive() // the held ones arrive, and are answered to nobody
}

var lateCases = []Case{
	{"LateEnter", "An Enter that arrives after the client's own next claim of that name does not touch that claim.",
		0, lateEnter},
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
	on := r.detour()
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

func lateLeave(r *run) {
	on := r.detour()
	first := r.claim()
	first.Ticket = r.holds(on, first).Ticket
	r.heldUp(on, "leave", func(ctx context.Context) error {
		return on.Leave(ctx, &driver.Release{Claim: first})
	})
	r.lateFor(on, first)
}

func lateRenew(r *run) {
	on := r.detour()
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

// detour opens a client whose requests can be held up: the store's own, or one that makes its calls late.
func (r *run) detour() *Detour {
	var on *Detour
	if r.store.Detour != nil {
		on = r.store.Detour(r)
	} else {
		on = lateCalls(r.store.Open(r))
	}
	r.Cleanup(func() {
		on.Pass()
		on.Arrive()
		on.Close()
	})
	return on
}

// lateCalls makes a detour of whole calls: those that are held up are made later, by nobody's context.
func lateCalls(d driver.Driver) *Detour {
	late := &lateDriver{Driver: d}
	return &Detour{late, late}
}

type lateDriver struct {
	driver.Driver
	mu    sync.Mutex // guards what follows
	holds bool
	held  []func()
}

func (l *lateDriver) Hold() { l.set(true) }
func (l *lateDriver) Pass() { l.set(false) }

func (l *lateDriver) set(holds bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = holds
}

func (l *lateDriver) Arrive() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, call := range held {
		call()
	}
}

// late keeps a call for later while calls are held up, and then returns how it ends for its caller.
func (l *lateDriver) late(ctx context.Context, call func(context.Context)) error {
	l.mu.Lock()
	holds := l.holds
	if holds {
		l.held = append(l.held, func() { call(context.WithoutCancel(ctx)) })
	}
	l.mu.Unlock()
	if !holds {
		return nil
	}
	<-ctx.Done()
	return driver.Ended(ctx, true)
}

func (l *lateDriver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	copied := *c
	if err := l.late(ctx, func(ctx context.Context) { _, _ = l.Driver.Enter(ctx, &copied) }); err != nil {
		return driver.Place{}, err
	}
	return l.Driver.Enter(ctx, c)
}

func (l *lateDriver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if err := l.late(ctx, func(ctx context.Context) { l.Driver.Renew(ctx, cs) }); err != nil {
		answers := make([]driver.Renewal, len(cs))
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	return l.Driver.Renew(ctx, cs)
}

func (l *lateDriver) Leave(ctx context.Context, d *driver.Release) error {
	copied := *d
	if err := l.late(ctx, func(ctx context.Context) { _ = l.Driver.Leave(ctx, &copied) }); err != nil {
		return err
	}
	return l.Driver.Leave(ctx, d)
}
