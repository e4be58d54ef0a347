package engine

import (
	"cmp"
	"errors"
	"time"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// An obstacle keeps a line from asking for a claim.
type obstacle int

const (
	noObstacle obstacle = iota
	clearing            // claims of this client that nobody wants are about to leave
	holding             // in a store without a queue, a claim of this client keeps all others out: asking is useless
)

func (e *Engine) obstacle(l Slot) obstacle {
	ln := e.lines.At(l)
	if ln.strays >= e.common.Conf.Strays {
		return clearing
	}
	try := e.first(l).state == trying
	lone := !e.common.Conf.Ordered && ln.terms.Exclusive()
	found := noObstacle
	for i := range e.claims.All {
		c := &e.claims.All[i]
		switch c.stage {
		case held, expiring, leaving:
			if lone && c.line == l {
				return holding
			}
		case quitting:
			if try && !c.adoptableBy(l) {
				found = clearing
			}
		case withdrawing:
			if try || lone && c.line == l {
				found = clearing // a claim that nobody holds must not refuse a try
			}
		}
	}
	return found
}

// adoptableBy reports whether a line may adopt a quitting claim. A cut Await proves nothing, so only an Enter counts.
func (c *claim) adoptableBy(l Slot) bool {
	return c.stage == quitting && c.line == l && c.verb == protocol.Enter
}

// enterFor makes a claim enter for a line, unless claims of this client must leave the store first: a request under way may
// queue behind one of them. It returns the obstacle if that lasts.
func (e *Engine) enterFor(l Slot, now Time) protocol.Verdict {
	e.makeWay(l, now)
	found, try := e.obstacle(l), e.first(l).state == trying
	switch c := e.adoptable(l); {
	case try && found == clearing:
	case c != None:
		e.enter(c, asking)
	case found == holding:
		return e.heldHere(l, now)
	case found == noObstacle:
		e.sendEnter(e.newClaim(l, asking, try), now)
	}
	e.arm(e.patienceEnd(e.first(l)))
	return protocol.Verdict{}
}

// adoptable returns a quitting claim that a new waiter of the line may adopt, or None.
func (e *Engine) adoptable(l Slot) Slot {
	return e.claims.Find(func(_ Slot, c *claim) bool { return c.adoptableBy(l) })
}

// makeWay withdraws lingering claims of other lines that are in the way of a line.
func (e *Engine) makeWay(l Slot, now Time) {
	for i := range e.claims.All {
		c := &e.claims.All[i]
		unused := c.stage == held && c.holds.Len == 0 && c.linger != Never // a claim that has just been granted has no linger yet
		if unused && e.exclude(c.line, l) {
			e.withdraw(Slot(i), now)
		}
	}
}

// exclude reports whether the claims of two lines exclude each other.
func (e *Engine) exclude(l, other Slot) bool {
	return l != other && (!e.lines.At(l).terms.Shared() || !e.lines.At(other).terms.Shared())
}

// abandon stops asking for a claim, since its line has no waiters any more.
func (e *Engine) abandon(c Slot, now Time) {
	cl := e.claims.At(c)
	if cl.verb == protocol.Nothing {
		e.quit(c, now)
		return
	}
	if cl.verb == protocol.Await {
		e.emit(protocol.Effect{Do: protocol.Cut, Claim: c, Number: cl.number})
	}
	e.enter(c, quitting) // Leave must not overtake an Enter
	cl.since = now
}

// quit removes a claim that does not hold. No request is needed if it cannot be in the store.
func (e *Engine) quit(c Slot, now Time) {
	if cl := e.claims.At(c); cl.ticket == 0 && cl.unsure == 0 {
		e.enter(c, nowhere)
		return
	}
	e.withdraw(c, now)
}

// sendEnter sends an Enter for the claim's place.
func (e *Engine) sendEnter(c Slot, now Time) {
	cl := e.claims.At(c)
	if cl.silent == Never {
		cl.silent = min(now, e.lines.At(cl.line).unanswered)
	}
	e.send(c, protocol.Enter, e.common.Conf.Patience, 0)
	e.arm(e.patienceEnd(e.first(cl.line)))
}

// maxUnsure bounds the counts of unanswered requests of a claim.
const maxUnsure = 3

// entered takes the answer to an Enter.
func (e *Engine) entered(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	if r.Outcome == protocol.Unknown && cl.ticket == 0 {
		cl.unsure = min(cl.unsure+1, maxUnsure)
	}
	if r.OK() && r.Place.Ticket != 0 {
		cl.ticket = r.Place.Ticket
	}
	switch {
	case cl.stage == quitting:
		if ln := e.lines.At(cl.line); !r.Answered() {
			ln.unanswered = min(ln.unanswered, cl.silent)
		}
		e.quit(c, now)
	case r.OK() && r.Place.Holds:
		if !e.granted(c, now, r.Sent, r.Place.TTL) {
			cl.err = errTooSlow
			e.pauseAsking(c, now)
		}
	case r.OK() && r.Place.Ticket == 0:
		l := cl.line
		e.quit(c, now) // an earlier Enter of the same try may have been applied
		e.refuseTries(l, protocol.HeldBy(&r.Place.Blocker))
	case r.OK():
		e.waits(c, now, r)
	case r.Missing():
		e.unseated(c, now, r)
	case r.Outcome == protocol.Rejected:
		e.failAll(cl.line, r.Verdict())
		e.quit(c, now)
	default:
		cl.err = r.Err
		e.pauseAsking(c, now)
	}
}

// pauseAsking pauses before the next Enter, and fails the waiters without patience.
func (e *Engine) pauseAsking(c Slot, now Time) {
	e.pause(c, now)
	e.loseHeart(e.claims.At(c).line, now)
}

// pause pauses before the next request of a claim, longer each time.
func (e *Engine) pause(c Slot, now Time) {
	cl := e.claims.At(c)
	e.schedule(c, now+e.backoff(cl.tries))
	cl.tries = min(cl.tries+1, maxTries)
}

const (
	firstPause = 10 * time.Millisecond
	maxTries   = 6
)

// backoff returns the pause after a number of tries: 10 ms to 640 ms, minus up to half as jitter.
func (e *Engine) backoff(tries uint8) time.Duration {
	d := firstPause << tries
	return d/2 + e.common.Conf.Jitter(d/2)
}

// waits notes that the claim is in the store's queue, and sends an Await.
func (e *Engine) waits(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	if cl.stage == asking {
		e.enter(c, queued)
		e.tell(protocol.Event{Kind: protocol.Waiting, Token: cl.ticket * Turns})
		cl.tries = 0
	} else if !e.common.Conf.Ordered && r.Place.Blocker.Ticket != cl.place.blocker.Ticket {
		cl.tries = 0 // the lock was free meanwhile
	}
	cl.silent, cl.err = Never, nil
	cl.place = &place{kept: r.Sent, lease: r.Place.TTL, blocker: r.Place.Blocker}
	wait := e.lines.At(cl.line).terms.Wait()
	again := r.Sent + wait*2/3 // Enter must keep the place alive
	if r.Place.Retry > 0 {
		again = min(again, protocol.After(r.Sent, r.Place.Retry+e.common.Conf.Grain))
	}
	e.send(c, protocol.Await, max(again-now, e.common.Conf.Grain), 0)
	cl.due = again
}

// atOnce is the time within which an Await of a driver counts as returned at once.
const atOnce = 200 * time.Microsecond

// earlyAwaits is the number of early Awaits in a row without a pause; more of them would be a spin.
const earlyAwaits = 3

// awaited takes the answer to an Await.
func (e *Engine) awaited(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	timely := now >= cl.due
	switch {
	case cl.stage == quitting:
		e.quit(c, now)
		return
	case r.OK() && r.Place.Holds:
		// It holds on the lease of its last Enter: trust only that, and renew it at once.
		if e.granted(c, now, cl.place.kept, cl.place.lease) {
			soon := now
			if cl.deadline-now > 2*handOverRenewal {
				soon += handOverRenewal
			}
			e.schedule(c, soon)
			return
		}
		cl.tries = 0 // the next Enter starts a full lease
	case timely, r.OK() && !e.common.Conf.Ordered && now-r.Sent > atOnce: // or the lock was free, and others were quicker
		cl.tries = 0
	case r.OK() && cl.tries < earlyAwaits:
		cl.tries++
	default:
		e.schedule(c, now+e.backoff(max(cl.tries, earlyAwaits)-earlyAwaits))
		cl.tries = min(cl.tries+1, earlyAwaits+maxTries)
		return
	}
	e.sendEnter(c, now)
}

// unseated handles a claim that the store no longer has. Its id is never used again. Waiters whose claim was in the queue
// have lost their place, not their patience: they start again at the tail. They fail if somebody removed the claim by hand,
// or if it reclaims: a later run of its owner may have removed it, and must not be removed in turn.
func (e *Engine) unseated(c Slot, now Time, r *protocol.Reply) {
	cl := e.claims.At(c)
	l, was := cl.line, *cl
	if r.Outcome == protocol.Broken || was.stage == queued && e.lines.At(l).terms.Reclaim {
		e.failAll(l, r.Verdict())
		e.forget(c, now)
		return
	}
	e.forget(c, now)
	silent, tries := was.silent, was.tries
	if was.stage == queued {
		silent, tries = now, 0
		e.tell(protocol.Event{Kind: protocol.Displaced, Token: was.ticket * Turns})
	}
	if was.stage == queued && now < was.place.kept+e.lines.At(l).terms.Wait() {
		c = e.newClaim(l, displaced, false)
		cl = e.claims.At(c)
		cl.place, cl.err = was.place, cmp.Or(r.Err, errUnseated)
		e.schedule(c, protocol.After(now, e.outlasting(l, &was)))
	} else { // there was no place, or its lease ran out while this client stood still: then the store lost nothing else
		c = e.newClaim(l, asking, e.first(l).state == trying)
		cl = e.claims.At(c)
		cl.silent, cl.tries, cl.err = silent, tries, cmp.Or(r.Err, errUnseated)
		e.pauseAsking(c, now)
	}
}

// outlasting returns how long waiters pause after the store forgot their claim. It may have forgotten the holder too, which
// learns that at its next renewal: within the rest of its lease as last reported, else within a whole lease. Meanwhile Leave
// looks for late requests of the forgotten claim.
func (e *Engine) outlasting(l Slot, was *claim) time.Duration {
	left := was.place.blocker.Remaining
	if left <= 0 {
		left = e.lines.At(l).terms.TTL
	}
	if was.unsure > 0 {
		left = max(left, e.common.Conf.Patience)
	}
	return left + e.common.Conf.Jitter(left/30)
}

var errUnseated = errors.New("the store does not keep the claim")

// errTooSlow is the failure of a store whose answers come too late to be of use.
var errTooSlow = errors.New("the store takes longer to answer than the lease lasts")

// granted makes the claim held. It returns false if too little of the lease is left to be of use.
func (e *Engine) granted(c Slot, now, sent Time, ttl time.Duration) bool {
	if e.common.Conf.Trusted(sent, ttl)-now < ttl/10 {
		return false
	}
	e.enter(c, held)
	cl := e.claims.At(c)
	ln := e.lines.At(cl.line)
	cl.silent, cl.err, cl.tries, cl.place = Never, nil, 0, noPlace
	cl.turnEnd = protocol.After(now, e.common.Conf.Turn)
	if ln.waiters.First != None {
		cl.turnEnd = protocol.After(cl.turnEnd, e.turns.At(ln.waiters.First).linger)
	}
	if !ln.terms.Permits() {
		ln.current = c
	}
	e.stack(c)
	e.confirm(c, now, sent, ttl)
	return true
}
