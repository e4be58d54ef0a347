package engine

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/slab"
)

// A Stage is the state of a claim between its first request and the moment after which nothing of it can be in the
// store. The drawing is in the package comment; [Engine.enter] is the one function that moves it.
type Stage uint8

// The stages.
const (
	nowhere     Stage = iota // the slot is free
	asking                   // an Enter is out, or a pause before the next
	queued                   // the store said that it has to wait: an Await or an Enter is out, or a pause before the next
	displaced                // it takes the place of a forgotten claim; its first Enter is sent when the former holder may know
	quitting                 // nobody wants it any more; its Enter or Await is still out, and Leave follows the answer
	held                     // it holds, and is renewed
	expiring                 // it holds, but all its holds were held for too long: it is not renewed
	over                     // its lease is lost; its holds are not released yet
	leaving                  // its last hold was released, by one who waits for the answer: a Leave is out, or a pause
	withdrawing              // nobody holds it and nobody waits for the answer: a Leave is out, or a pause before the next
	sweeping                 // it left, but an Enter may arrive yet that was never answered: Leave is sent now and then
	stages
)

// stray reports whether nobody wants a claim in this stage.
func (s Stage) stray() bool { return s == quitting || s == withdrawing || s == sweeping }

// asks reports whether a claim in this stage is to hold for those in its line.
func (s Stage) asks() bool { return s == asking || s == queued || s == displaced }

// lives reports whether a claim in this stage holds, and ends at its deadline.
func (s Stage) lives() bool { return s == held || s == expiring }

// A claim is one acquisition in the store. There are many of them, so small fields stand together.
type claim struct {
	id    uint64 // never given twice
	line  Slot
	stage Stage
	verb  protocol.Verb // the request that is out, or Nothing; the answer to any other is not read
	try   bool          // it enters only if it holds at once
	free  bool          // a turn can be had from it at once
	amend amending      // a change that is to go with its renewals
	alarm bool          // the driver said that it is in danger, after the request was sent that is out

	tries  uint8     // pauses since the store last answered; for an Await, answers that came early
	unsure uint8     // Enters without ticket that were not answered: each may arrive at any later time
	lost   uint8     // Leaves that were not answered
	turns  int16     // given
	holds  slab.List // not released
	live   int32     // how many of them are not over
	number uint64    // of the request that is out
	due    Time      // when the next request is sent: Never while one is out, but when its place wants keeping during an Await
	err    error     // of the last request, if it failed

	// Asking.
	ticket int64  // from the store; 0 before that
	silent Time   // when the first Enter was sent that was not answered; Never if the last one was
	place  *place // in the store's queue, as the store last told; of the claim whose place it takes, before it has one

	// Holding.
	turnEnd  Time       // no turn begins after this
	linger   Time       // with no holds: when it leaves; Never if it has holds
	deadline Time       // until when it is trusted
	slept    Time       // how long the machine had slept when the lease was last confirmed
	links    slab.Links // among those that a turn can be had from
	ripe     Time       // no hold ends by its MaxHold before this

	// Leaving.
	keep  Time // the store keeps the lock taken until then; 0 means not
	since Time // when it began to leave, or nobody wanted it any more
}

// A place is where a claim stands in the store's queue. It never changes, so copies of an engine share it.
type place struct {
	kept    Time             // when the Enter was sent that kept it
	lease   time.Duration    // that this Enter began
	blocker driver.ClaimInfo // for whom the claim waits, as far as the store told
}

var noPlace = &place{}

// Links are a claim's links in lists.
func (c *claim) Links() *slab.Links { return &c.links }

// enter moves a claim to another stage, and is the only function that does.
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

// newClaim makes a claim in its first stage. Its first request is not sent yet.
func (e *Engine) newClaim(l Slot, first Stage, try bool) Slot {
	e.common.last++
	c := e.claims.Take(claim{
		id: e.common.last, line: l, try: try, silent: Never, linger: Never, due: Never, ripe: Never, holds: slab.Empty, place: noPlace,
	})
	e.lines.At(l).claims++
	e.enter(c, first)
	return c
}

// TermsOf are the terms of a claim.
func (e *Engine) TermsOf(c Slot) *protocol.Terms { return e.lines.At(e.claims.At(c).line).terms }

// Awaiting returns the waiter that has waited longest for a turn on the claim, or None.
func (e *Engine) Awaiting(c Slot) Slot { return e.lines.At(e.claims.At(c).line).waiters.First }

// Try reports whether a claim enters only if it holds at once.
func (e *Engine) Try(c Slot) bool { return e.claims.At(c).try }

// Again reports whether a claim that has no ticket takes the place of one that the store forgot.
func (e *Engine) Again(c Slot) bool {
	return e.claims.At(c).place != noPlace && e.claims.At(c).ticket == 0
}

// Ticket is where the claim stands in the store, or 0 if that is not known.
func (e *Engine) Ticket(c Slot) int64 { return e.claims.At(c).ticket }

// send sends a request. The answer to one that was sent before is no longer read.
func (e *Engine) send(c Slot, v protocol.Verb, limit time.Duration, keep time.Duration) {
	cl := e.claims.At(c)
	e.common.last++
	cl.verb, cl.number, cl.due, cl.alarm = v, e.common.last, Never, false
	e.emit(protocol.Effect{
		Do: protocol.Send, Verb: v, Claim: c, Turn: cl.holds.First, Number: cl.number, Limit: limit, Keep: keep, Amend: cl.amend == carried,
	})
}

// schedule sets the time of a claim's next request.
func (e *Engine) schedule(c Slot, t Time) {
	e.claims.At(c).due = t
	e.arm(t)
}

// Answer takes what became of a request.
func (e *Engine) Answer(now Time, r *protocol.Reply) {
	if int(r.Claim) >= len(e.claims.All) || e.claims.At(r.Claim).number != r.Number || e.claims.At(r.Claim).verb == protocol.Nothing {
		return // it was superseded: a renewal, by a Leave that did not wait for it
	}
	cl := e.claims.At(r.Claim)
	verb := cl.verb
	cl.verb = protocol.Nothing
	if r.Answered() {
		e.lines.At(cl.line).unanswered = Never
	}
	e.endExpired(r.Claim, now) // an answer that comes too late changes nothing
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

// forget drops a claim that left the store, unless an Enter may arrive yet.
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
