package engine

import "time"

// A hold is one turn on a claim. It may be shared, and is released with its last share.
type hold struct {
	claim      Slot
	prev, next Slot // of the same claim
	token      int64
	since      Time
	until      Time // MaxHold's end
	linger     time.Duration
	shares     int32
	state      holdState
}

type holdState uint8

const (
	live   holdState = iota // it can be trusted until the claim's deadline
	ended                   // it was lost, and is not released yet
	parted                  // it was released, and whoever did so waits for the store's answer
)

// usable reports whether another turn may begin on the claim.
func (e *Engine) usable(c Slot, now Time) bool {
	cl := e.claims.at(c)
	return cl.stage == held && cl.failure == nil && cl.keep == 0 && cl.turns < Turns && now < min(cl.turnEnd, cl.deadline)
}

// usableClaim returns a claim of the line that a turn can be had from at once, or None. Those whose turns are over leave.
func (e *Engine) usableClaim(l Slot, now Time) Slot {
	for ln := e.lines.at(l); ln.free != None; {
		c := ln.free
		if e.usable(c, now) {
			return c
		}
		e.unstack(c)
		if e.claims.at(c).holds == 0 {
			e.withdraw(c, now)
		}
	}
	return None
}

// stack puts a claim where a turn can be had from it.
func (e *Engine) stack(c Slot) {
	cl := e.claims.at(c)
	if cl.stacked == free {
		return
	}
	ln := e.lines.at(cl.line)
	cl.stacked, cl.prev, cl.next = free, None, ln.free
	if ln.free != None {
		e.claims.at(ln.free).prev = c
	}
	ln.free = c
}

func (e *Engine) unstack(c Slot) {
	cl := e.claims.at(c)
	if cl.stacked == busy {
		return
	}
	if cl.prev == None {
		e.lines.at(cl.line).free = cl.next
	} else {
		e.claims.at(cl.prev).next = cl.next
	}
	if cl.next != None {
		e.claims.at(cl.next).prev = cl.prev
	}
	cl.stacked, cl.prev, cl.next = busy, None, None
}

// grant begins a turn on a usable claim.
func (e *Engine) grant(c Slot, w Want, since, now Time) Slot {
	cl := e.claims.at(c)
	token := cl.ticket*Turns + int64(cl.turns)
	local := cl.turns > 0
	cl.turns++
	if !e.lines.at(cl.line).terms.shared() {
		e.unstack(c)
	}
	e.tell(Event{Kind: Acquired, Token: token, Waited: now - since, Local: local}, nil)
	return e.addHold(c, token, w, now)
}

func (e *Engine) addHold(c Slot, token int64, w Want, now Time) Slot {
	cl := e.claims.at(c)
	h := e.holds.take(hold{claim: c, prev: None, next: cl.hold, token: token, since: now, until: Never, linger: w.Linger, shares: 1})
	if cl.hold != None {
		e.holds.at(cl.hold).prev = h
	}
	cl.hold, cl.linger = h, Never
	cl.holds++
	cl.live++
	if w.MaxHold > 0 {
		e.holds.at(h).until = After(now, w.MaxHold)
		e.arm(e.holds.at(h).until)
	}
	return h
}

// Turn returns the claim that a hold is a turn on, its fencing token, and when it ends by its MaxHold, or Never.
func (e *Engine) Turn(h Slot) (claim Slot, token int64, until Time) {
	x := e.holds.at(h)
	return x.claim, x.token, x.until
}

// Share makes another share of a hold. It reports false if the hold is over.
func (e *Engine) Share(now Time, h Slot) bool {
	x := e.holds.at(h)
	e.look(x.claim, now)
	if x.state == live {
		x.shares++
	}
	e.settle(now)
	return x.state == live
}

// Release gives one share back. With the last the turn ends, and the claim is handed on, lingers, or leaves the store,
// which keeps the lock taken for so long after. The code is OK, or Pending if a Done follows or the hold had ended before.
func (e *Engine) Release(now Time, h Slot, keep time.Duration) Code {
	x := e.holds.at(h)
	c := x.claim
	cl := e.claims.at(c)
	e.look(c, now)
	if keep > 0 {
		cl.keep = max(cl.keep, After(now, keep))
	}
	x.shares--
	code := OK
	switch {
	case x.shares > 0:
	case x.state == ended:
		e.removeHold(h)
		e.abandonLost(c, now)
		code = Pending
	default:
		code = e.released(h, now)
	}
	if e.waiters.used() > 0 || e.claims.at(c).stage != held {
		e.settle(now) // else the claim stands as it stood, and nobody waits for anything
	}
	return code
}

// released ends a live hold that its last owner gave back.
func (e *Engine) released(h Slot, now Time) Code {
	x := *e.holds.at(h)
	c := x.claim
	cl := e.claims.at(c)
	if cl.stage == parting {
		e.leaveParting(c, Verdict{Code: Lost}) // whoever detaches it comes too late
		e.enter(c, held)
	}
	cl.live--
	if cl.holds > 1 {
		e.removeHold(h)
		e.tellReleased(&x, now)
		if cl.live == 0 {
			e.enter(c, expiring)
		}
		return OK
	}
	if e.usable(c, now) {
		// The turn goes to the next in line, if there is one; if not, the claim lingers.
		line := e.lines.at(cl.line)
		if line.length > 0 || x.linger > 0 && e.phase == open && !e.wanted(cl.line) {
			e.removeHold(h)
			e.tellReleased(&x, now)
			e.stack(c)
			if line.length == 0 {
				cl.linger = After(now, x.linger)
				e.arm(cl.linger)
			}
			return OK
		}
	}
	e.holds.at(h).state = parted
	e.enter(c, leaving)
	e.beginLeave(c, now)
	return Pending
}

// wanted reports whether waiters of other lines want what the claims of this line keep from them.
func (e *Engine) wanted(l Slot) bool {
	if e.lines.used() == 1 {
		return false
	}
	t := &e.lines.at(l).terms
	for i := range e.lines.all {
		if other := &e.lines.all[i]; Slot(i) != l && other.length > 0 && (!t.shared() || !other.terms.shared()) {
			return true
		}
	}
	return false
}

func (e *Engine) tellReleased(x *hold, now Time) {
	e.tell(Event{Kind: Released, Token: x.token, Held: now - x.since}, nil)
}

// removeHold forgets a hold that was released.
func (e *Engine) removeHold(h Slot) {
	x := e.holds.at(h)
	cl := e.claims.at(x.claim)
	if x.prev == None {
		cl.hold = x.next
	} else {
		e.holds.at(x.prev).next = x.next
	}
	if x.next != None {
		e.holds.at(x.next).prev = x.prev
	}
	cl.holds--
	e.holds.drop(h)
}

// abandonLost has a claim leave when its last hold was given back that had been lost before: now that the work under it
// is over, it need not run out. After closing there is nobody left to ask.
func (e *Engine) abandonLost(c Slot, now Time) {
	switch cl := e.claims.at(c); {
	case cl.holds > 0:
	case e.phase == closing:
		e.enter(c, nowhere)
	default:
		e.withdraw(c, now)
	}
}

// look ends what is over by the clock: the lease of a claim, or holds that were held for too long.
func (e *Engine) look(c Slot, now Time) {
	cl := e.claims.at(c)
	switch cl.stage {
	case held, expiring, parting:
	default:
		return
	}
	if now >= cl.deadline {
		e.lose(c, now, Expired)
		return
	}
	for h := cl.hold; h != None; {
		x := e.holds.at(h)
		next := x.next
		if x.state == live && now >= x.until {
			e.endHold(h, now, Verdict{Code: Lost, Reason: HeldLong})
		}
		h = next
	}
	if cl.live == 0 && cl.holds > 0 && cl.stage != expiring {
		// The work under it may not have stopped, so it stays until it is released or runs out.
		e.leaveParting(c, Verdict{Code: Lost, Reason: HeldLong})
		e.enter(c, expiring)
	}
}

// endHold ends a live hold before it was released.
func (e *Engine) endHold(h Slot, now Time, v Verdict) {
	x := e.holds.at(h)
	x.state = ended
	e.claims.at(x.claim).live--
	e.emit(Effect{Do: End, Hold: h, Verdict: v, Event: Event{Kind: Ended, Token: x.token, Held: now - x.since}})
}

// lose ends the lease of a claim: others may hold the lock from now on.
func (e *Engine) lose(c Slot, now Time, reason Reason) {
	cl := e.claims.at(c)
	if reason == Expired && e.Slept > cl.slept {
		reason = Suspended
	}
	v := Verdict{Code: Lost, Reason: reason, Err: cl.failure}
	e.leaveParting(c, v)
	e.enter(c, over)
	for h := cl.hold; h != None; h = e.holds.at(h).next {
		if e.holds.at(h).state == live {
			e.endHold(h, now, v)
		}
	}
	switch {
	case cl.holds > 0: // stays over until they are released
	case reason == Removed || reason == SessionOver:
		e.forget(c, now)
	default:
		e.abandonLost(c, now)
	}
}
