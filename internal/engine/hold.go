package engine

import (
	"cmp"
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// A turn is one goroutine's wish, and then its share of a claim: a waiter stands in a line, and becomes a hold on a
// claim. A hold may be shared, and is released with its last share.
type turn struct {
	linger, maxHold time.Duration // as in Want

	since  Time       // when it came, and then when it began
	in     Slot       // the line, and then the claim
	links  slab.Links // among its waiters, or its holds
	shares int32
	number int16 // of the claim's turns; its token follows from that
	state  turnState
}

// A turnState is the state of a turn. A waiter becomes a hold, and no hold becomes live again.
//
//	waiting, trying ──► live ──► ended, or parted
type turnState uint8

const (
	waiting turnState = iota // it stands in a line, for as long as it takes
	trying                   // it stands in a line until it is known that it would have to wait
	live                     // it can be trusted until the claim's deadline
	ended                    // it was lost, and is not released yet
	parted                   // it was released, and its releaser waits for the store's answer
)

// Links makes a turn an element of lists.
func (x *turn) Links() *slab.Links { return &x.links }

// until is when a hold ends by its MaxHold.
func (x *turn) until() Time { return protocol.After(x.since, cmp.Or(x.maxHold, Never)) }

// Token is the fencing token of a hold.
func (e *Engine) Token(h Slot) int64 {
	x := e.turns.At(h)
	return e.claims.At(x.in).ticket*Turns + int64(x.number)
}

// usable reports whether another turn may begin on the claim.
func (e *Engine) usable(c Slot, now Time) bool {
	cl := e.claims.At(c)
	return cl.stage == held && cl.err == nil && cl.keep == 0 && cl.turns < Turns && now < min(cl.turnEnd, cl.deadline)
}

// usableClaim returns a claim of the line that a turn can be had from at once, or None. Those whose turns are over leave.
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

// stack puts a claim where a turn can be had from it.
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

// Turn returns the claim that a hold is a turn on, its fencing token, and when it ends by its MaxHold, or Never.
func (e *Engine) Turn(h Slot) (claim Slot, token int64, until Time) {
	x := e.turns.At(h)
	return x.in, e.Token(h), x.until()
}

// Share makes another share of a hold. It reports false if the hold is over.
func (e *Engine) Share(now Time, h Slot) bool {
	x := e.turns.At(h)
	e.endExpired(x.in, now)
	if x.state == live {
		x.shares++
	}
	e.settle(now)
	return x.state == live
}

// Closes reports whether the claim leaves the store with a live hold, although others could share it if they came before.
func (e *Engine) Closes(h Slot) bool {
	x := e.turns.At(h)
	cl := e.claims.At(x.in)
	ln := e.lines.At(cl.line)
	return ln.terms.Shared() && x.shares == 1 && cl.live == 1 && x.linger == 0 && ln.waiters.Len == 0 && !e.wanted(cl.line)
}

// Release gives one share back. With the last the turn ends, and the claim is handed on, lingers, or leaves the
// store, which keeps the lock taken for the given time after. The code is OK, or Pending if a Done follows or the
// hold had ended before.
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

// released ends a live hold that its last owner gave back.
func (e *Engine) released(h Slot, now Time) protocol.Code {
	x := e.turns.At(h)
	c, linger := x.in, x.linger
	cl := e.claims.At(c)
	cl.live--
	waited := e.lines.At(cl.line).waiters.Len > 0
	switch {
	case cl.holds.Len > 1:
		e.giveBack(h, now)
		e.endExpired(c, now) // those that are left may all be over
	case e.usable(c, now) && (waited || linger > 0 && !e.closing() && !e.wanted(cl.line)):
		// The turn goes to the next in line, if there is one; if not, the claim lingers.
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

// giveBack removes a hold that is over because it was released.
func (e *Engine) giveBack(h Slot, now Time) {
	e.tell(protocol.Event{Kind: protocol.Released, Token: e.Token(h), Held: now - e.turns.At(h).since})
	e.removeHold(h)
}

// removeHold forgets a hold that was released.
func (e *Engine) removeHold(h Slot) {
	slab.Remove(&e.turns, &e.claims.At(e.turns.At(h).in).holds, h)
	e.turns.Drop(h)
}

// abandonLost removes a claim when its last hold is given back and was lost before: the work under it is over, so the
// claim need not run out. After closing there is nobody left to ask.
func (e *Engine) abandonLost(c Slot, now Time) {
	switch cl := e.claims.At(c); {
	case cl.holds.Len > 0:
	case e.closing():
		e.enter(c, nowhere)
	default:
		e.withdraw(c, now)
	}
}

// endExpired ends a claim whose lease is over, and holds that were held for too long.
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
		// The work under it may not have stopped, so it stays until it is released or runs out.
		e.enter(c, expiring)
	}
}

// endHold ends a live hold before it was released.
func (e *Engine) endHold(h Slot, now Time, v protocol.Verdict) {
	x := e.turns.At(h)
	x.state = ended
	e.claims.At(x.in).live--
	e.emit(protocol.Effect{Do: protocol.End, Turn: h, Verdict: v, Held: now - x.since})
}

// lose ends the lease of a claim: others may hold the lock from now on.
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
	case cl.holds.Len > 0: // stays over until they are released
	case reason == protocol.Removed || reason == protocol.SessionOver || reason == protocol.ByHand:
		e.forget(c, now)
	default:
		e.abandonLost(c, now)
	}
}
