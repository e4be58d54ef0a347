package drivertest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Loss is a client whose requests, from Freeze(false, true) on, are applied but not answered. Drop fails the waiting calls
// with an error that says that their answers are lost. Later requests are answered.
type Loss struct {
	Detour
	Other driver.Driver // another client of the same store, which can list its claims all the time; the suite closes it
	Waits func() bool   // a request was applied and waits for its answer; nil means that Other shows this
}

func lostMidway(r *run) {
	losses := maps.Clone(r.store.Losses)
	if losses == nil {
		losses = map[string]func(t testing.TB) *Loss{}
	}
	if r.store.Detour != nil {
		losses["its connection breaks"] = func(t testing.TB) *Loss { return &Loss{Detour: *r.store.Detour(t), Other: r.store.Open(t)} }
	}
	for _, what := range slices.Sorted(maps.Keys(losses)) {
		on := losses[what](r)
		r.Cleanup(func() {
			on.Drop()
			on.Close()
			on.Other.Close()
		})
		r.midway(what, on)
	}
}

// midway loses the answer to a client's request while the client waits for it.
func (r *run) midway(what string, on *Loss) {
	const attempts = 5
	held, first := r.claim(), r.claim()
	held.Name += "/held"
	held.Ticket = r.holds(on, held).Ticket
	first.Ticket = r.holds(on, first).Ticket // so that all preparation is done
	r.leave(on, first)
	var c *driver.Claim
	for attempt := 1; ; attempt++ {
		c = r.claim()
		applied, err := r.unheard(what, on, "enter", func() error { _, err := on.Enter(r.ctx, c); return err },
			func() bool { return r.waitsFor(on, c) })
		if applied && err == nil {
			r.Fatalf("%s: enter, of which no answer came back, is confirmed; want an unknown outcome", what)
		}
		if _, lists := on.Other.(driver.Lister); applied || !lists {
			break
		}
		if attempt == attempts { // a proxy or pooler in between may be reconnecting
			r.Fatalf("%s: no claim comes to the store while answers are held back", what)
		}
		r.until(recovers, "the claim is out", func() bool { return r.out(&on.Detour, c) })
	}
	r.until(recovers, "the claim holds", func() bool {
		p, err := on.Enter(r.ctx, c)
		c.Ticket = p.Ticket
		return err == nil && p.Holds || r.traits.OwnClient
	})
	_, _ = r.unheard(what, on, "renewal", func() error { return r.renew(on, held).Err }, nil)
	_, _ = r.unheard(what, on, "leave", func() error { return on.Leave(r.ctx, &driver.Release{Claim: c}) }, nil)
	r.until(recovers, "the claims are out", func() bool { return r.out(&on.Detour, c) && r.out(&on.Detour, held) })
}

// unheard makes a call, and loses its answer while the client waits for it: when the call is applied, or after a short time
// if nobody can see that.
func (r *run) unheard(what string, on *Loss, verb string, call func() error, applied func() bool) (was bool, err error) {
	r.Helper()
	on.Freeze(false, true)
	told := make(chan error, 1)
	go func() { told <- call() }()
	length := heldUp
	if applied != nil {
		length *= 10
	}
	for begun := time.Now(); !was && time.Since(begun) < length && len(told) == 0 && poll(r.ctx); {
		was = applied != nil && applied()
	}
	on.Drop()
	if err = <-told; driver.OutcomeOf(err) == driver.OutcomeRefused && !errors.Is(err, driver.ErrGone) {
		r.Errorf("%s: %s = %v; want no refusal", what, verb, err)
	}
	return was, err
}

// waitsFor reports whether a claim is in the store while its client waits for the answer.
func (r *run) waitsFor(on *Loss, c *driver.Claim) bool {
	if on.Waits != nil {
		return on.Waits()
	}
	lister, ok := on.Other.(driver.Lister)
	if !ok {
		return false
	}
	list, err := lister.List(r.ctx, &driver.Query{Name: c.Name})
	return err == nil && len(list) == 1 && len(list[0].Claims) == 1
}
