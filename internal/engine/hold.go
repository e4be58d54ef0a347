package engine

import (
	"cmp"
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// A turn is one goroutine's wish for a claim, and then its time with it: a waiter in a line becomes a hold on a claim. A
// hold may have several shares, and ends with the last.
type turn struct {
	linger, maxHold time.Duration // as in Want

	since  Time       // when it came, then when it began
	in     Slot       // the line, then the claim
	links  slab.Links // among the line's waiters, then the claim's holds
	shares int32
	number int16 // among the claim's turns; the token follows from it
	state  turnState
}

// A turnState is the state of a turn. A waiter becomes a hold, and no hold becomes live again.
//
//	waiting, trying ──► live ──► ended, or parted
type turnState uint8

const (
	waiting turnState = iota // in a line, for as long as it takes
	trying                   // in a line, until it would have to wait
	live                     // trusted until the claim's deadline
	ended                    // lost, and not released yet
	parted                   // released; the releaser waits for the store's answer
)

// Links makes a turn an element of lists.
func (x *turn) Links() *slab.Links { return &x.links }

// until returns when MaxHold ends a hold, or Never.
func (x *turn) until() Time { return protocol.After(x.since, cmp.Or(x.maxHold, Never)) }

// Token returns the fencing token of a hold.
func (e *Engine) Token(h Slot) int64 {
	x := e.turns.At(h)
	return e.claims.At(x.in).ticket*Turns + int64(x.number)
}

// usable reports whether another turn may begin on the claim.
func (e *Engine) usable(c Slot, now Time) bool {
	cl := e.claims.At(c)
	return cl.stage == held && cl.err == nil && cl.keep == 0 && cl.turns < Turns && now < min(cl.turnEnd, cl.deadline)
}

// usableClaim returns a claim of the line with a free turn, or None. Unused claims whose turns are over leave.
func (e *Engine) usableClaim(l Slot, now Time) Slot {
	for ln := e.lines.At(l); ln.free.First != None; {
		c := ln.free.First
		if e.usable(c, now) {
			return c
		}
		e.unstack(c)
		if e.claims.At(c).holds.Len == 0 {
			e.withdraw(c, now)
		}
	}
	return None
}

// stack adds a claim to its line's free.
func (e *Engine) stack(c Slot) {
	if cl := e.claims.At(c); !cl.free {
		slab.PushFront(&e.claims, &e.lines.At(cl.line).free, c)
		cl.free = true
	}
}

func (e *Engine) unstack(c Slot) {
	if cl := e.claims.At(c); cl.free {
		slab.Remove(&e.claims, &e.lines.At(cl.line).free, c)
		cl.free = false
	}
}

// grant begins a turn on a usable claim.
func (e *Engine) grant(c, h Slot, now Time) {
	cl, x := e.claims.At(c), e.turns.At(h)
	waited := now - x.since
	x.number = cl.turns
	cl.turns++
	if !e.lines.At(cl.line).terms.Shared() {
		e.unstack(c)
	}
	e.addHold(c, h, now)
	e.tell(protocol.Event{Kind: protocol.Acquired, Token: e.Token(h), Waited: waited, Local: x.number > 0})
}

func (e *Engine) addHold(c, h Slot, now Time) {
	cl, x := e.claims.At(c), e.turns.At(h)
	x.in, x.since, x.shares, x.state = c, now, 1, live
	slab.PushFront(&e.turns, &cl.holds, h)
	cl.linger = Never
	cl.live++
	cl.ripe = min(cl.ripe, x.until())
	e.arm(x.until())
}

// Turn returns a hold's claim, its fencing token, and when MaxHold ends it, or Never.
func (e *Engine) Turn(h Slot) (claim Slot, token int64, until Time) {
	x := e.turns.At(h)
	return x.in, e.Token(h), x.until()
}

// Share makes another share of a hold. It returns false if the hold is over.
func (e *Engine) Share(now Time, h Slot) bool {
	x := e.turns.At(h)
	e.endExpired(x.in, now)
	if x.state == live {
		x.shares++
	}
	e.settle(now)
	return x.state == live
}

// Closes reports whether the end of a live hold would make a claim leave that new readers could still share.
func (e *Engine) Closes(h Slot) bool {
	x := e.turns.At(h)
	cl := e.claims.At(x.in)
	ln := e.lines.At(cl.line)
	return ln.terms.Shared() && x.shares == 1 && cl.live == 1 && x.linger == 0 && ln.waiters.Len == 0 && !e.wanted(cl.line)
}

// Release gives one share back. With the last share the turn ends, and the claim is handed on, lingers, or leaves the store,
// which then keeps the lock taken for keep. The code is OK, or Pending if a Done follows or the hold was already over.
func (e *Engine) Release(now Time, h Slot, keep time.Duration) protocol.Code {
	x := e.turns.At(h)
	c := x.in
	cl := e.claims.At(c)
	e.endExpired(c, now)
	if keep > 0 {
		cl.keep = max(cl.keep, protocol.After(now, keep))
	}
	x.shares--
	code := protocol.OK
	switch {
	case x.shares > 0:
	case x.state == ended:
		e.removeHold(h)
		e.abandonLost(c, now)
		code = protocol.Pending
	default:
		code = e.released(h, now)
	}
	e.settle(now)
	return code
}

// released ends a live hold after its last share was given back.
func (e *Engine) released(h Slot, now Time) protocol.Code {
	x := e.turns.At(h)
	c, linger := x.in, x.linger
	cl := e.claims.At(c)
	cl.live--
	waited := e.lines.At(cl.line).waiters.Len > 0
	switch {
	case cl.holds.Len > 1:
		e.giveBack(h, now)
		e.endExpired(c, now) // the remaining holds may all be over
	case e.usable(c, now) && (waited || linger > 0 && !e.closing() && !e.wanted(cl.line)):
		// The turn goes to the first waiter; without waiters the claim lingers.
		e.giveBack(h, now)
		e.stack(c)
		if !waited {
			cl.linger = protocol.After(now, linger)
			e.arm(cl.linger)
		}
	default:
		x.state = parted
		e.leave(c, leaving, now)
		return protocol.Pending
	}
	return protocol.OK
}

// wanted reports whether the claims of this line keep waiters of other lines out.
func (e *Engine) wanted(l Slot) bool {
	return e.lines.Find(func(other Slot, ln *line) bool { return ln.waiters.Len > 0 && e.exclude(l, other) }) != None
}

// giveBack removes a released hold and reports its release.
func (e *Engine) giveBack(h Slot, now Time) {
	e.tell(protocol.Event{Kind: protocol.Released, Token: e.Token(h), Held: now - e.turns.At(h).since})
	e.removeHold(h)
}

// removeHold removes a hold.
func (e *Engine) removeHold(h Slot) {
	slab.Remove(&e.turns, &e.claims.At(e.turns.At(h).in).holds, h)
	e.turns.Drop(h)
}

// abandonLost removes a lost claim after its last hold was given back: the work under it has ended, so the claim need not
// run out. After closing there is no store left to ask.
func (e *Engine) abandonLost(c Slot, now Time) {
	switch cl := e.claims.At(c); {
	case cl.holds.Len > 0:
	case e.closing():
		e.enter(c, nowhere)
	default:
		e.withdraw(c, now)
	}
}

// endExpired ends a claim whose lease is over, and holds past their MaxHold.
func (e *Engine) endExpired(c Slot, now Time) {
	cl := e.claims.At(c)
	if !cl.stage.lives() {
		return
	}
	if now >= cl.deadline {
		e.lose(c, now, protocol.Expired)
		return
	}
	if now >= cl.ripe { // many readers may share a claim
		cl.ripe = Never
		for h, x := range slab.Each(&e.turns, &cl.holds) {
			if x.state == live && now >= x.until() {
				e.endHold(h, now, protocol.Verdict{Code: protocol.Lost, Reason: protocol.HeldLong})
			} else if x.state == live {
				cl.ripe = min(cl.ripe, x.until())
			}
		}
	}
	if cl.live == 0 && cl.holds.Len > 0 && cl.stage != expiring {
		// Its work may still run, so the claim stays until it is released or runs out.
		e.enter(c, expiring)
	}
}

// endHold ends a live hold before its release.
func (e *Engine) endHold(h Slot, now Time, v protocol.Verdict) {
	x := e.turns.At(h)
	x.state = ended
	e.claims.At(x.in).live--
	e.emit(protocol.Effect{Do: protocol.End, Turn: h, Verdict: v, Held: now - x.since})
}

// lose ends the lease of a claim: from now on others may hold the lock.
func (e *Engine) lose(c Slot, now Time, reason protocol.Reason) {
	cl := e.claims.At(c)
	if reason == protocol.Expired && e.common.Slept > cl.slept {
		reason = protocol.Suspended
	}
	v := protocol.Verdict{Code: protocol.Lost, Reason: reason, Err: cl.err}
	e.enter(c, over)
	for h, x := range slab.Each(&e.turns, &cl.holds) {
		if x.state == live {
			e.endHold(h, now, v)
		}
	}
	switch {
	case cl.holds.Len > 0: // stays over until the holds are released
	case reason == protocol.Removed || reason == protocol.SessionOver || reason == protocol.ByHand:
		e.forget(c, now)
	default:
		e.abandonLost(c, now)
	}
}
