package engine

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// A Stage is the state of a claim, from its first request until nothing of it can be in the store. The drawing is in the
// package comment; only [Engine.enter] changes the stage.
type Stage uint8

// The stages.
const (
	nowhere     Stage = iota // the slot is free
	asking                   // an Enter is under way, or a pause before the next
	queued                   // it waits in the store's queue: an Await or an Enter is under way, or a pause before the next
	displaced                // it replaces a forgotten claim; its first Enter waits until the former holder must know
	quitting                 // nobody wants it any more; its Enter or Await is still under way, and Leave follows
	held                     // it holds, and is renewed
	expiring                 // it holds, but all its holds lasted too long: it is not renewed
	over                     // its lease is lost; some holds are not released yet
	leaving                  // its last hold was released, and the releaser waits: a Leave is under way, or a pause
	withdrawing              // nobody holds it, and nobody waits for the answer: a Leave is under way, or a pause
	sweeping                 // it left, but an unanswered Enter may still arrive: Leave is sent now and then
	stages
)

// stray reports whether nobody wants a claim in this stage.
func (s Stage) stray() bool { return s == quitting || s == withdrawing || s == sweeping }

// asks reports whether a claim in this stage is to serve the waiters of its line.
func (s Stage) asks() bool { return s == asking || s == queued || s == displaced }

// lives reports whether a claim in this stage holds until its deadline.
func (s Stage) lives() bool { return s == held || s == expiring }

// A claim is one acquisition in the store. There are many, so small fields stand together.
type claim struct {
	id    uint64 // never used twice
	line  Slot
	stage Stage
	verb  protocol.Verb // the request under way, or Nothing; no other answer counts
	try   bool          // it enters only if it holds at once
	free  bool          // it has a free turn
	amend amending      // a change that its renewals carry
	alarm bool          // the driver saw it in danger while a request was under way

	tries  uint8     // pauses since the last answer; for an Await, early answers
	unsure uint8     // unanswered Enters without a ticket: each may still arrive
	lost   uint8     // unanswered Leaves
	turns  int16     // begun
	holds  slab.List // not released, over or not
	live   int32     // the holds that are not over
	number uint64    // of the request under way
	due    Time      // of the next request; Never during a request, but during an Await the time to keep the place
	err    error     // of the last request, if it failed

	// Asking.
	ticket int64  // from the store; 0 before that
	silent Time   // when the first unanswered Enter was sent; Never after an answer
	place  *place // in the store's queue; before the first place, the place of the claim that it replaces

	// Holding.
	turnEnd  Time       // no turn begins after this
	linger   Time       // when it leaves, if it has no holds; else Never
	deadline Time       // until then it is trusted
	slept    Time       // the machine's sleep when the lease was last confirmed
	links    slab.Links // in its line's free
	ripe     Time       // no MaxHold ends a hold before this

	// Leaving.
	keep  Time // the store keeps the lock taken until then; 0 means no longer
	since Time // when it began to leave, or lost its last waiter
}

// A place is a claim's place in the store's queue. It never changes, so copies of an engine share it.
type place struct {
	kept    Time             // when the Enter was sent that kept it
	lease   time.Duration    // begun by that Enter
	blocker driver.ClaimInfo // the claim in the way, as the store reported it
}

var noPlace = &place{}

// Links are a claim's links in lists.
func (c *claim) Links() *slab.Links { return &c.links }

// enter moves a claim to another stage. No other function does.
func (e *Engine) enter(c Slot, to Stage) {
	cl := e.claims.At(c)
	ln := e.lines.At(cl.line)
	if cl.stage.stray() {
		ln.strays--
	}
	if to.stray() {
		ln.strays++
	}
	if ln.asking == c && !to.asks() {
		ln.asking = None
	}
	if to.asks() {
		ln.asking = c
	}
	if to != held {
		e.amended(c, protocol.Verdict{Code: protocol.Lost}) // the shell knows why
		e.unstack(c)
		if ln.current == c {
			ln.current = None
		}
	}
	cl.stage = to
	e.common.moves++
	if to == nowhere {
		ln.claims--
		e.claims.Drop(c)
		e.emit(protocol.Effect{Do: protocol.Gone, Claim: c})
	}
}

// newClaim makes a claim in its first stage. It sends no request yet.
func (e *Engine) newClaim(l Slot, first Stage, try bool) Slot {
	e.common.last++
	c := e.claims.Take(claim{
		id: e.common.last, line: l, try: try, silent: Never, linger: Never, due: Never, ripe: Never, holds: slab.Empty,
		place: noPlace,
	})
	e.lines.At(l).claims++
	e.enter(c, first)
	return c
}

// TermsOf returns the terms of a claim.
func (e *Engine) TermsOf(c Slot) *protocol.Terms { return e.lines.At(e.claims.At(c).line).terms }

// Awaiting returns the waiter that has waited longest for a turn on the claim, or None.
func (e *Engine) Awaiting(c Slot) Slot { return e.lines.At(e.claims.At(c).line).waiters.First }

// Try reports whether a claim enters only if it holds at once.
func (e *Engine) Try(c Slot) bool { return e.claims.At(c).try }

// Again reports whether a claim without a ticket replaces a claim that the store forgot.
func (e *Engine) Again(c Slot) bool {
	return e.claims.At(c).place != noPlace && e.claims.At(c).ticket == 0
}

// Ticket returns the claim's ticket, or 0 if it is not known.
func (e *Engine) Ticket(c Slot) int64 { return e.claims.At(c).ticket }

// send sends a request. The answer to an earlier request no longer counts.
func (e *Engine) send(c Slot, v protocol.Verb, limit time.Duration, keep time.Duration) {
	cl := e.claims.At(c)
	e.common.last++
	cl.verb, cl.number, cl.due, cl.alarm = v, e.common.last, Never, false
	e.emit(protocol.Effect{
		Do: protocol.Send, Verb: v, Claim: c, Turn: cl.holds.First, Number: cl.number, Limit: limit, Keep: keep,
		Amend: cl.amend == carried,
	})
}

// schedule sets the time of a claim's next request.
func (e *Engine) schedule(c Slot, t Time) {
	e.claims.At(c).due = t
	e.arm(t)
}

// Answer takes the outcome of a request.
func (e *Engine) Answer(now Time, r *protocol.Reply) {
	if int(r.Claim) >= len(e.claims.All) || e.claims.At(r.Claim).number != r.Number ||
		e.claims.At(r.Claim).verb == protocol.Nothing {
		return // another request followed: a Leave does not wait for a renewal
	}
	cl := e.claims.At(r.Claim)
	verb := cl.verb
	cl.verb = protocol.Nothing
	if r.Answered() {
		e.lines.At(cl.line).unanswered = Never
	}
	e.endExpired(r.Claim, now) // an answer after the deadline changes nothing
	switch verb {
	case protocol.Enter:
		e.entered(r.Claim, now, r)
	case protocol.Await:
		e.awaited(r.Claim, now, r)
	case protocol.Renew:
		e.renewed(r.Claim, now, r)
	case protocol.Leave:
		e.left(r.Claim, now, r)
	}
	e.settle(now)
}

// forget drops a claim that left the store, or sweeps if an Enter may still arrive.
func (e *Engine) forget(c Slot, now Time) {
	cl := e.claims.At(c)
	if cl.unsure == 0 || e.closing() {
		e.enter(c, nowhere)
		return
	}
	e.enter(c, sweeping)
	cl.since, cl.tries = now, 0
	e.pauseSweeping(c, now)
}
