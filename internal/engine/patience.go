package engine

import (
	"cmp"

	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// queuedPatience multiplies the patience of a waiter whose claim is in the store's queue, or was there until the store
// forgot it. That waiter has already waited, and does not give up for a restart or a failover.
const queuedPatience = 12

// loseHeart fails the waiters of a line whose patience is over.
func (e *Engine) loseHeart(l Slot, now Time) {
	ln := e.lines.At(l)
	for w, x := range slab.Each(&e.turns, &ln.waiters) {
		if end := e.patienceEnd(x); now >= end {
			e.fail(w, e.silence(l))
		} else if e.arm(end); ln.tries == 0 {
			return // later waiters are patient for longer
		}
	}
}

// patienceEnd returns when a waiter gives up on the store; Never unless it waits for an answer. Its patience counts from its
// arrival or, if later, from the first unanswered request. A try waits only for the store: first until claims of this client
// have left it, then for its own claim. All of that is one patience, anywhere in the line.
func (e *Engine) patienceEnd(x *turn) Time {
	ln, patience := e.lines.At(x.in), e.common.Conf.Patience
	switch {
	case x.state == trying:
		return protocol.After(x.since, patience)
	case ln.asking != None:
		c := e.claims.At(ln.asking)
		if c.place != noPlace {
			patience = min(patience, Never/queuedPatience) * queuedPatience
		}
		return protocol.After(max(x.since, c.silent), patience)
	case ln.current == None && (ln.unanswered != Never || e.obstacle(x.in) == clearing):
		return protocol.After(max(x.since, e.unansweredSince(x.in)), patience)
	}
	return Never
}

// unansweredSince returns the time since when the store owes an answer to a line whose own claims are in its way.
func (e *Engine) unansweredSince(l Slot) Time {
	since := e.lines.At(l).unanswered
	for i := range e.claims.All {
		if c := &e.claims.All[i]; c.stage.stray() {
			since = min(since, c.since)
		}
	}
	return since
}

// silence returns the verdict for a waiter whose patience is over.
func (e *Engine) silence(l Slot) protocol.Verdict {
	v := protocol.Verdict{Code: protocol.Unreachable, Err: protocol.ErrSilent}
	if a := e.lines.At(l).asking; a != None {
		c := e.claims.At(a)
		v.Err = cmp.Or(c.err, protocol.ErrSilent)
		if c.unsure > 0 || c.verb == protocol.Enter {
			v.Code = protocol.Doubtful
		}
	}
	return v
}
