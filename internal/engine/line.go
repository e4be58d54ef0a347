package engine

import (
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// A line has the waiters on the same terms, in order of arrival.
type line struct {
	terms      *protocol.Terms
	waiters    slab.List // of turns
	free       slab.List // of claims with a free turn, the last used first
	tries      int32     // the waiters that do not wait
	claims     int32     // the claims of all stages
	strays     int32     // the claims that nobody wants
	asking     Slot      // the claim that is asking, queued or displaced
	current    Slot      // the claim whose turns the line waits for; None for permits, which are never handed on
	unanswered Time      // when the first unanswered request of a claim that left was sent; Never once the store answers one
}

// Want adds a goroutine that wants a turn. If the turn begins at once, Want returns the hold; else it returns the waiter,
// and a Grant or a Fail answers later. A closing engine returns neither.
func (e *Engine) Want(now Time, t *protocol.Terms, want protocol.Want) (h, w Slot) {
	if e.closing() {
		return None, None
	}
	l := e.lineOf(t)
	ln := e.lines.At(l)
	w = e.turns.Take(turn{linger: want.Linger, maxHold: want.MaxHold, in: l, since: now})
	if ln.waiters.Len == 0 {
		if c := e.usableClaim(l, now); c != None {
			e.grant(c, w, now)
			return w, None
		}
	}
	slab.PushBack(&e.turns, &ln.waiters, w)
	if want.Try {
		e.turns.At(w).state = trying
		ln.tries++
		e.arm(protocol.After(now, e.common.Conf.Patience))
	}
	e.settle(now)
	return None, w
}

// lineOf returns the line for some terms, new if there is none.
func (e *Engine) lineOf(t *protocol.Terms) Slot {
	for i := range e.lines.All {
		if has := e.lines.All[i].terms; has == t || has != nil && *has == *t {
			return Slot(i)
		}
	}
	e.lines.LowestFirst() // lines are served in the order of their slots
	return e.lines.Take(line{terms: t, waiters: slab.Empty, free: slab.Empty, asking: None, current: None, unanswered: Never})
}

// GiveUp takes a waiter out of its line, since its caller no longer waits, and returns the obstacle: the blocker, or the
// store if it has failed since.
func (e *Engine) GiveUp(now Time, w Slot) protocol.Verdict {
	l := e.turns.At(w).in
	v := e.inTheWay(l, now)
	e.leaveLine(w)
	e.turns.Drop(w)
	e.settle(now)
	return v
}

// inTheWay returns the obstacle of a line, as far as this client knows it.
func (e *Engine) inTheWay(l Slot, now Time) protocol.Verdict {
	ln := e.lines.At(l)
	if ln.asking == None {
		return e.heldHere(l, now)
	}
	a := e.claims.At(ln.asking)
	if a.stage == displaced || a.stage == queued && a.err == nil {
		return protocol.HeldBy(&a.place.blocker)
	}
	return protocol.Verdict{Code: protocol.Unreachable, Err: a.err}
}

// heldHere returns the verdict that this client itself holds the name.
func (e *Engine) heldHere(l Slot, now Time) protocol.Verdict {
	ln := e.lines.At(l)
	v := protocol.Verdict{Code: protocol.Held, By: ln.terms.Record}
	if ln.current != None {
		v.Remaining = max(0, e.claims.At(ln.current).deadline-now)
	}
	return v
}

// first returns the waiter that has waited longest in a line.
func (e *Engine) first(l Slot) *turn { return e.turns.At(e.lines.At(l).waiters.First) }

// leaveLine takes a waiter out of its line.
func (e *Engine) leaveLine(w Slot) {
	x := e.turns.At(w)
	ln := e.lines.At(x.in)
	slab.Remove(&e.turns, &ln.waiters, w)
	if x.state == trying {
		ln.tries--
	}
}

// settle serves every line, at the end of each event. A line may wait for a claim of another line.
func (e *Engine) settle(now Time) {
	for range 4 { // more than enough; the next event would continue
		moves := e.common.moves
		for l := range e.lines.All {
			if ln := &e.lines.All[l]; ln.terms != nil {
				e.serveLine(Slot(l), now)
			}
		}
		if e.lines.Used() < 2 || moves == e.common.moves {
			return
		}
	}
}

// serveLine is the only place that grants turns to waiters, refuses tries, and asks for, adopts and abandons claims.
func (e *Engine) serveLine(l Slot, now Time) {
	e.handOver(l, now)
	ln := e.lines.At(l)
	if ln.waiters.Len > 0 {
		if v := e.pursue(l, now); v.Code == protocol.Held && ln.tries > 0 {
			e.refuseTries(l, v)
		}
	}
	if ln.waiters.Len == 0 && ln.asking != None {
		e.abandon(ln.asking, now) // also if its last waiters were tries that were refused just now
	}
	if ln.waiters.Len == 0 && ln.claims == 0 {
		e.lines.Drop(l)
	}
}

// handOver grants free turns to the first waiters of a line.
func (e *Engine) handOver(l Slot, now Time) {
	ln := e.lines.At(l)
	for ln.waiters.Len > 0 {
		c := e.usableClaim(l, now)
		if c == None {
			break
		}
		w := ln.waiters.First
		e.leaveLine(w)
		e.grant(c, w, now)
		e.emit(protocol.Effect{Do: protocol.Grant, Turn: w})
	}
	if ln.current != None && !e.usable(ln.current, now) {
		ln.current = None // its turns are over; its holds go on
	}
}

// pursue makes sure that a claim comes for the waiters of a line. It returns the obstacle, or Pending while that is unknown.
func (e *Engine) pursue(l Slot, now Time) protocol.Verdict {
	switch ln := e.lines.At(l); {
	case ln.asking == None && ln.current == None:
		return e.enterFor(l, now)
	case ln.asking == None:
		e.arm(e.claims.At(ln.current).turnEnd)
		if ln.tries > 0 {
			return e.heldHere(l, now)
		}
	case ln.tries > 0 && e.claims.At(ln.asking).stage != asking:
		return protocol.HeldBy(&e.claims.At(ln.asking).place.blocker)
	}
	return protocol.Verdict{}
}

// refuseTries fails the tries in a line once they would have to wait.
func (e *Engine) refuseTries(l Slot, v protocol.Verdict) {
	for w, x := range slab.Each(&e.turns, &e.lines.At(l).waiters) {
		if x.state == trying {
			e.fail(w, v)
		}
	}
}

// failAll fails every waiter in a line.
func (e *Engine) failAll(l Slot, v protocol.Verdict) {
	for w := range slab.Each(&e.turns, &e.lines.At(l).waiters) {
		e.fail(w, v)
	}
}

func (e *Engine) fail(w Slot, v protocol.Verdict) {
	e.leaveLine(w)
	e.turns.Drop(w)
	e.emit(protocol.Effect{Do: protocol.Fail, Turn: w, Verdict: v})
}
