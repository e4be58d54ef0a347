package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// The cases of a claim that is lost and enters again during a call.
var anewCases = []Case{
	{"RenewAnew", "A renewal that began before a claim was lost does nothing to the claim once that has entered anew.", 0, renewAnew},
}

// An asked context calls a function when the driver checks for the nth time whether the context has ended. A caller's
// context may do anything for any time.
type asked struct {
	context.Context
	nth      int64
	times    atomic.Int64
	then     func()
	happened chan struct{} // closed when it has
}

func (a *asked) Done() <-chan struct{} { a.note(); return a.Context.Done() }
func (a *asked) Err() error            { a.note(); return a.Context.Err() }

func (a *asked) note() {
	if a.times.Add(1)-1 == a.nth {
		a.then()
		close(a.happened)
	}
}

// over reports whether the function was called. If not, it is never called from now on.
func (a *asked) over() bool {
	if a.times.Add(a.nth+1) <= 2*a.nth+1 {
		return false
	}
	<-a.happened
	return true
}

// renewAnew stops a renewal at each check of its context. The client does not know whether its first claim is in the store,
// so it must ask about this claim before it renews the second. Meanwhile the second claim is lost and enters again.
func renewAnew(r *run) {
	if r.store.Detour == nil && (r.traits.InSession || r.traits.OwnClient) { // and nothing ends the session or connection
		return
	}
	for nth := range int64(2) {
		on, unknown, c := r.warmed(), r.claim(), r.brief()
		if r.traits.InSession { // it must end with the session
			c.TTL, c.Wait = 2*time.Minute, 2*time.Minute
		}
		unknown.Name += "/unknown"
		r.lost(on, "enter", func(ctx context.Context) error { _, err := on.Enter(ctx, unknown); return err })
		var err error
		r.until(recovers, "the claim holds", func() bool { // its ticket is not kept, as after a lost answer
			var p driver.Place
			p, err = on.Enter(r.ctx, c)
			return err == nil && p.Holds
		})
		again := *c
		again.TTL, again.Wait = 2*time.Minute, 2*time.Minute
		var lost, entered, over bool
		when := fmt.Sprintf("in the middle of a renewal, at its question %d", nth+1)
		asks := &asked{Context: r.ctx, nth: nth, happened: make(chan struct{}), then: func() { lost, entered, over = r.anew(on, &again) }}
		on.Renew(asks, []*driver.Claim{unknown, c})
		switch {
		case !asks.over(): // the renewal has fewer checks
		case !lost, over: // over: the id must not enter again
		default:
			if !entered { // the driver makes the calls on one claim one after the other
				r.until(recovers, "the claim holds again, which was lost "+when, func() bool {
					p, err := on.Enter(r.ctx, &again)
					return err == nil && p.Holds
				})
			}
			if err := r.renew(on, &again).Err; err != nil || r.free() {
				r.Fatalf("the next renewal of a claim that was lost and entered anew %s = %v; want nil, and that the claim keeps others out",
					when, err)
			}
		}
		for _, c := range []*driver.Claim{&again, unknown} {
			r.until(recovers, "the claim is out", func() bool { return r.out(on, c) })
		}
		if !lost {
			return
		}
	}
}

const (
	lostWithin = 20 * time.Second // how long a session of a detour may outlast its connection
	anewWithin = 5 * time.Second  // how long a claim may take to enter again: it may have to wait for the stopped call
)

// anew makes a client lose its claim, and lets the claim enter again. It reports whether the claim was lost, and if so,
// whether it holds again or is over for good.
func (r *run) anew(on *Detour, c *driver.Claim) (lost, holds, over bool) {
	on.Freeze(true, true)
	if r.traits.OwnClient { // the claim ends with its connection
		on.Drop()
	}
	cut, cancel := context.WithTimeout(r.ctx, lostWithin)
	defer cancel()
	lost = until(cut, func() bool {
		other := r.claim()
		other.Try = true
		p, err := r.b.Enter(cut, other)
		return err == nil && p.Holds && r.b.Leave(cut, &driver.Release{Claim: other}) == nil
	})
	on.Drop()
	if !lost {
		return false, false, false
	}
	ctx, end := context.WithTimeout(r.ctx, anewWithin)
	defer end()
	until(ctx, func() bool {
		p, err := on.Enter(ctx, c)
		holds, over = err == nil && p.Holds, errors.Is(err, driver.ErrGone)
		return holds || over
	})
	return true, holds, over
}
