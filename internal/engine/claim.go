package engine

import (
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Stage is what a claim is in, between its first request and the moment after which nothing of it can be in the store.
// The drawing is in the package comment; [Engine.enter] is the one function that moves it.
type Stage uint8

// The stages.
const (
	nowhere     Stage = iota // the slot is free
	asking                   // an Enter is out, or a pause before the next
	queued                   // the store said that it has to wait: an Await or an Enter is out, or a pause before the next
	quitting                 // nobody wants it any more; its Enter or Await is still out, and Leave follows the answer
	held                     // it holds, and is renewed
	expiring                 // it holds, but all its holds were held for too long: it is not renewed
	parting                  // it holds, and the renewal is out that comes before it is left to another process
	attaching                // it was left by another process, and the renewal is out that takes it up
	over                     // its lease is lost; its holds are not released yet
	leaving                  // its last hold was released, by one who waits for the answer: a Leave is out, or a pause
	withdrawing              // nobody holds it and nobody waits for the answer: a Leave is out, or a pause before the next
	sweeping                 // it left, but an Enter may arrive yet that was never answered: Leave is sent now and then
	stages
)

// String names the stage in a word.
func (s Stage) String() string {
	return [...]string{
		"nowhere", "asking", "queued", "quitting", "held", "expiring", "parting", "attaching", "over", "leaving", "withdrawing", "sweeping",
	}[s]
}

// Stages is how many stages there are.
const Stages = int(stages)

// stray reports whether nobody wants a claim in this stage.
func (s Stage) stray() bool { return s == quitting || s == withdrawing || s == sweeping }

// A claim is one acquisition in the store. There are many of them, so what is small stands together.
type claim struct {
	id      uint64 // never given twice
	line    Slot
	stage   Stage
	verb    Verb    // the request that is out, or Nothing; the answer to any other is not read
	try     bool    // it enters only if it holds at once
	stacked stacked // whether a turn can be had from it

	tries  uint8  // pauses since the store last answered; for an Await, answers that came early
	unsure uint8  // Enters without ticket that were not answered: each may arrive at any later time
	lost   uint8  // Leaves that were not answered
	hold   Slot   // the first of its holds
	holds  int32  // not released
	live   int32  // and not over
	turns  int32  // given
	number uint64 // of the request that is out
	pause  Time   // with no request out: when the next is sent

	// Asking.
	ticket  int64            // from the store; 0 before that
	silent  Time             // when the first Enter was sent that was not answered; Never if the last one was
	err     error            // why
	kept    Time             // when the Enter was sent that last kept its place
	lease   time.Duration    // that this Enter began
	again   Time             // when its place wants keeping
	blocker *driver.Standing // for whom it waits; nil if it does not

	// Holding.
	turnEnd    Time  // no turn begins after this
	linger     Time  // with no holds: when it leaves; Never if it has holds
	deadline   Time  // until when it is trusted
	renewAt    Time  // when it wants renewing
	alarmed    Time  // when the driver last said that it is in danger; Never if it is not
	failure    error // of the last renewal
	slept      Time  // how long the machine had slept when the lease was last confirmed
	prev, next Slot  // in the stack of claims that a turn can be had from

	// Leaving.
	keep  Time // the store keeps the lock taken until then; 0 means not
	since Time // when it began to leave, or nobody wanted it any more
}

// blocked returns for whom the claim waits, as far as the store told.
func (c *claim) blocked() driver.Standing {
	if c.blocker == nil {
		return driver.Standing{}
	}
	return *c.blocker
}

// stacked says whether a turn can be had from the claim at once.
type stacked uint8

const (
	busy stacked = iota
	free
)

// enter moves a claim to another stage, and is the only function that does.
func (e *Engine) enter(c Slot, to Stage) {
	cl := e.claims.at(c)
	ln := e.lines.at(cl.line)
	if cl.stage.stray() {
		ln.strays--
	}
	if to.stray() {
		ln.strays++
	}
	if ln.asking == c && to != asking && to != queued {
		ln.asking = None
	}
	if to == asking || to == queued {
		ln.asking = c
	}
	if to != held {
		e.unstack(c)
		if ln.current == c {
			ln.current = None
		}
	}
	cl.stage = to
	e.moves++
	if to == nowhere {
		ln.claims--
		e.claims.drop(c)
		e.emit(Effect{Do: Gone, Claim: c})
	}
}

// newClaim makes a claim that is Asking. Its first request is not sent yet.
func (e *Engine) newClaim(l Slot, try bool) Slot {
	ln := e.lines.at(l)
	c := e.claims.take(claim{
		id: e.number(), line: l, try: try, silent: Never, linger: Never, alarmed: Never, pause: Never, hold: None, prev: None, next: None,
	})
	ln.claims++
	e.enter(c, asking)
	return c
}

// Asked returns what a claim asks for, and whether it enters only if it holds at once.
func (e *Engine) Asked(c Slot) (t *Terms, try bool) {
	cl := e.claims.at(c)
	return &e.lines.at(cl.line).terms, cl.try
}

// An obstacle is what keeps a line from asking.
type obstacle int

const (
	noObstacle obstacle = iota
	clearing            // claims of our own that nobody wants, on their way out
	holding             // in a store without a queue, a claim of our own keeps all others out: asking would be of no use
)

func (e *Engine) obstacle(l Slot) obstacle {
	ln := e.lines.at(l)
	if ln.strays >= e.conf.Strays {
		return clearing
	}
	try := e.waiters.at(ln.first).Try
	lone := !e.conf.Ordered && ln.terms.exclusive()
	found := noObstacle
	if !try && !lone {
		return found
	}
	for i := range e.claims.all {
		c := &e.claims.all[i]
		switch c.stage {
		case held, expiring, parting, leaving:
			if lone && c.line == l {
				return holding
			}
		case quitting:
			if try && !c.adoptable(l) {
				found = clearing
			}
		case withdrawing:
			if try || c.line == l {
				found = clearing // refusing a try because of what nobody holds would be wrong
			}
		}
	}
	return found
}

// adoptable reports whether a line may take up a claim that is quitting. An Await was cut, and tells nothing.
func (c *claim) adoptable(l Slot) bool { return c.line == l && c.verb == Enter }

// ask has a claim enter for a line, or says why not: Pending if claims of our own are to be out of the store first.
func (e *Engine) ask(l Slot, now Time) Verdict {
	e.makeWay(l, now)
	ln := e.lines.at(l)
	found := e.obstacle(l)
	if try := e.waiters.at(ln.first).Try; try && found == clearing {
		e.arm(e.patienceEnd(l))
		return Verdict{Code: Pending} // what is on its way may stand behind a claim of our own
	}
	for i := range e.claims.all {
		if c := &e.claims.all[i]; ln.strays > 0 && c.stage == quitting && c.adoptable(l) {
			e.enter(Slot(i), asking) // whoever comes now adopts what is on its way
			e.arm(e.patienceEnd(l))
			return Verdict{}
		}
	}
	switch found {
	case clearing:
		e.arm(e.patienceEnd(l))
		return Verdict{Code: Pending}
	case holding:
		return e.heldHere(l, now)
	}
	e.sendEnter(e.newClaim(l, e.waiters.at(ln.first).Try), now)
	return Verdict{}
}

// makeWay has claims leave that linger for other terms and are in the way of a line.
func (e *Engine) makeWay(l Slot, now Time) {
	if e.lines.used() == 1 {
		return
	}
	t := &e.lines.at(l).terms
	for i := range e.claims.all {
		c := &e.claims.all[i]
		if c.stage != held || c.holds > 0 || c.line == l || c.linger == Never {
			continue // one that has come to hold just now is its own line's
		}
		if other := &e.lines.at(c.line).terms; !t.shared() || !other.shared() {
			e.withdraw(Slot(i), now)
		}
	}
}

// abandon ends the asking, since nobody in the line wants the claim any more.
func (e *Engine) abandon(c Slot, now Time) {
	switch cl := e.claims.at(c); cl.verb {
	case Await:
		e.emit(Effect{Do: Cut, Claim: c, Number: cl.number})
		e.enter(c, quitting)
		cl.since = now
	case Enter:
		e.enter(c, quitting) // Leave must not overtake it
		cl.since = now
	default:
		e.quit(c, now)
	}
}

// quit has a claim leave that does not hold, unless it cannot be in the store.
func (e *Engine) quit(c Slot, now Time) {
	if cl := e.claims.at(c); cl.ticket == 0 && cl.unsure == 0 {
		e.enter(c, nowhere)
		return
	}
	e.withdraw(c, now)
}

// sendEnter asks for the claim's place.
func (e *Engine) sendEnter(c Slot, now Time) {
	cl := e.claims.at(c)
	cl.pause = Never
	if cl.silent == Never {
		cl.silent = min(now, e.lines.at(cl.line).deaf)
	}
	e.send(c, Enter, e.conf.Patience, 0)
	e.arm(e.patienceEnd(cl.line))
}

// send sends a request. The answer to one that was sent before is no longer read.
func (e *Engine) send(c Slot, v Verb, limit time.Duration, keep time.Duration) {
	cl := e.claims.at(c)
	cl.verb, cl.number, cl.pause = v, e.number(), Never
	e.emit(Effect{Do: Send, Verb: v, Claim: c, Number: cl.number, Limit: limit, Keep: keep})
}

// Answer takes what became of a request.
func (e *Engine) Answer(now Time, r *Reply) {
	if int(r.Claim) >= len(e.claims.all) || e.claims.at(r.Claim).number != r.Number || e.claims.at(r.Claim).verb == Nothing {
		return // it was superseded: a renewal, by a Leave that did not wait for it
	}
	cl := e.claims.at(r.Claim)
	verb := cl.verb
	cl.verb = Nothing
	if r.answered() {
		e.lines.at(cl.line).deaf = Never
	}
	if cl.stage == held || cl.stage == parting || cl.stage == expiring {
		e.look(r.Claim, now) // an answer that comes too late changes nothing
	}
	switch verb {
	case Enter:
		e.entered(r.Claim, now, r)
	case Await:
		e.awaited(r.Claim, now, r)
	case Renew, Extend:
		e.renewed(r.Claim, now, r)
	case Leave:
		e.left(r.Claim, now, r)
	}
	e.settle(now)
}

// maxUnsure bounds a count that grows with each Enter that is not answered.
const maxUnsure = 3

// entered takes the answer to an Enter.
func (e *Engine) entered(c Slot, now Time, r *Reply) {
	cl := e.claims.at(c)
	if r.Outcome == Unknown && cl.ticket == 0 {
		cl.unsure = min(cl.unsure+1, maxUnsure)
	}
	if r.ok() && r.Place.Ticket != 0 {
		cl.ticket = r.Place.Ticket
	}
	switch {
	case cl.stage == quitting:
		if ln := e.lines.at(cl.line); !r.answered() {
			ln.deaf = min(ln.deaf, cl.silent)
		}
		e.quit(c, now)
	case r.ok() && r.Place.Holds:
		if !e.granted(c, now, r.Sent, r.Place.TTL) {
			cl.err = errTooSlow
			e.pauseAsking(c, now)
		}
	case r.ok() && r.Place.Ticket == 0:
		l := cl.line
		e.quit(c, now) // an earlier Enter of the same try may have been applied
		e.refuseTries(l, Verdict{Code: Held, Blocker: r.Place.Blocker})
	case r.ok():
		e.waits(c, now, r)
	case r.missing():
		e.unseated(c, now, r)
	case r.Outcome == Rejected:
		e.failAll(cl.line, Verdict{Code: Refused, Err: r.Err})
		e.quit(c, now)
	default:
		cl.err = r.Err
		e.pauseAsking(c, now)
	}
}

// pauseAsking lets a moment pass before the next Enter, a longer one each time.
func (e *Engine) pauseAsking(c Slot, now Time) {
	cl := e.claims.at(c)
	cl.pause = now + e.backoff(cl.tries)
	cl.tries = min(cl.tries+1, maxTries)
	e.arm(cl.pause)
	e.loseHeart(cl.line, now)
}

const (
	firstPause = 10 * time.Millisecond
	maxTries   = 6
)

// backoff is from 10 ms up to 640 ms, with jitter.
func (e *Engine) backoff(tries uint8) time.Duration {
	d := firstPause << tries
	return d/2 + e.jitter(d/2)
}

// waits notes that the claim stands in the store's queue, and waits for its turn.
func (e *Engine) waits(c Slot, now Time, r *Reply) {
	cl := e.claims.at(c)
	if cl.stage == asking {
		e.enter(c, queued)
		e.tell(Event{Kind: Waiting, Token: cl.ticket * Turns}, nil)
		cl.tries = 0
	} else if !e.conf.Ordered && r.Place.Blocker.Ticket != cl.blocked().Ticket {
		cl.tries = 0 // the lock was free in between
	}
	cl.silent, cl.err = Never, nil
	cl.kept, cl.lease = r.Sent, r.Place.TTL
	if blocker := r.Place.Blocker; blocker != (driver.Standing{}) {
		cl.blocker = &blocker
	}
	wait := e.lines.at(cl.line).terms.Wait()
	cl.again = r.Sent + wait*2/3 // the place itself must be kept alive
	if r.Place.Retry > 0 {
		cl.again = min(cl.again, After(r.Sent, r.Place.Retry+e.grain()))
	}
	e.send(c, Await, max(cl.again-now, e.grain()), 0)
}

// atOnce is for how long a driver has not waited when its Await returns within that.
const atOnce = 200 * time.Microsecond

// earlyAwaits is how many Awaits may return early before there is a pause: early all the time would be a spin.
const earlyAwaits = 3

// awaited takes the answer to an Await.
func (e *Engine) awaited(c Slot, now Time, r *Reply) {
	cl := e.claims.at(c)
	timely := now >= cl.again
	switch {
	case cl.stage == quitting:
		e.quit(c, now)
		return
	case r.ok() && r.Place.Holds:
		// It holds on the lease that its last Enter began: trust that much, and have it renewed at once.
		if e.granted(c, now, cl.kept, cl.lease) {
			if cl.renewAt = now; cl.deadline-now > 2*handOverRenewal {
				cl.renewAt += handOverRenewal
			}
			e.arm(cl.renewAt)
			return
		}
		cl.tries = 0 // Enter makes a full lease of it
	case timely, r.ok() && !e.conf.Ordered && now-r.Sent > atOnce: // or the lock was free, and others were quicker
		cl.tries = 0
	case r.ok() && cl.tries < earlyAwaits:
		cl.tries++
	default:
		cl.pause = now + e.backoff(max(cl.tries, earlyAwaits)-earlyAwaits)
		cl.tries = min(cl.tries+1, earlyAwaits+maxTries)
		e.arm(cl.pause)
		return
	}
	e.sendEnter(c, now)
}

// unseated deals with a claim that is not in the store although it asked.
func (e *Engine) unseated(c Slot, now Time, r *Reply) {
	cl := e.claims.at(c)
	l := cl.line
	if cl.stage == queued && now < cl.kept+e.lines.at(l).terms.Wait() {
		e.failAll(l, Verdict{Code: Lost, Reason: r.reason()}) // somebody removed it
		e.forget(c, now)
		return
	}
	// Its place ran out while we did not run, or its session is over. An id is never used twice: start again at the tail,
	// with the patience that is left.
	silent, tries := cl.silent, cl.tries
	if cl.stage == queued {
		silent, tries = now, 0 // it lost its place, not its patience
	}
	e.forget(c, now)
	c = e.newClaim(l, e.waiters.at(e.lines.at(l).first).Try)
	cl = e.claims.at(c)
	cl.silent, cl.tries, cl.err = silent, tries, errUnseated
	if r.Err != nil {
		cl.err = r.Err
	}
	e.pauseAsking(c, now)
}

var errUnseated = errors.New("the store does not keep the claim")

// errTooSlow is the failure of a store whose answers are worth nothing when they come.
var errTooSlow = errors.New("the store takes longer to answer than the lease lasts")

// forget drops a claim that left the store, unless an Enter may arrive yet.
func (e *Engine) forget(c Slot, now Time) {
	cl := e.claims.at(c)
	if cl.unsure == 0 || e.phase == closing {
		e.enter(c, nowhere)
		return
	}
	e.enter(c, sweeping)
	cl.since, cl.tries = now, 0
	e.pauseSweeping(c, now)
}

// granted makes the claim one that turns can be had from. It returns false if too little of its lease is left to be of
// use.
func (e *Engine) granted(c Slot, now, sent Time, ttl time.Duration) bool {
	if e.conf.Trusted(sent, ttl)-now < ttl/10 {
		return false
	}
	e.enter(c, held)
	cl := e.claims.at(c)
	ln := e.lines.at(cl.line)
	cl.silent, cl.err, cl.tries, cl.blocker = Never, nil, 0, nil
	cl.turnEnd = After(now, e.conf.Turn)
	if ln.first != None {
		cl.turnEnd = After(cl.turnEnd, e.waiters.at(ln.first).Linger)
	}
	if !ln.terms.permits() {
		ln.current = c
	}
	e.stack(c)
	e.confirm(c, now, sent, ttl)
	return true
}
