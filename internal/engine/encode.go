package engine

import (
	"encoding/binary"
	"slices"
	"time"
)

// Clone returns a copy that shares nothing with the engine but its configuration.
func (e *Engine) Clone() *Engine {
	c := New(e.conf)
	c.CopyFrom(e)
	return c
}

// CopyFrom makes the engine a copy of another, in the memory that it has.
func (e *Engine) CopyFrom(o *Engine) {
	lines, waiters, claims, holds, effects := e.lines, e.waiters, e.claims, e.holds, e.effects
	*e = *o
	e.lines, e.waiters, e.claims, e.holds = lines, waiters, claims, holds
	e.lines.copyFrom(&o.lines)
	e.waiters.copyFrom(&o.waiters)
	e.claims.copyFrom(&o.claims)
	e.holds.copyFrom(&o.holds)
	e.effects = effects[:0]
}

func (s *slab[T]) copyFrom(o *slab[T]) {
	s.all, s.free = append(s.all[:0], o.all...), append(s.free[:0], o.free...)
}

// A Field is one thing that an encoding holds.
type Field uint8

// The fields of an encoding, each the field of a struct by its name.
const (
	NoField Field = iota
	fieldEnginePhase
	fieldEngineClosed
	fieldLineTerms
	fieldLineAsking
	fieldLineCurrent
	fieldLineFree
	fieldLineDeaf
	fieldWaiterWant
	fieldWaiterSince
	fieldClaimID
	fieldClaimStage
	fieldClaimVerb
	fieldClaimPause
	fieldClaimTries
	fieldClaimTry
	fieldClaimTicket
	fieldClaimUnsure
	fieldClaimSilent
	fieldClaimKept
	fieldClaimLease
	fieldClaimAgain
	fieldClaimBlocker
	fieldClaimTurns
	fieldClaimTurnEnd
	fieldClaimLinger
	fieldClaimDeadline
	fieldClaimRenewAt
	fieldClaimAlarmed
	fieldClaimFailure
	fieldClaimSlept
	fieldClaimKeep
	fieldClaimSince
	fieldClaimLost
	fieldHoldUntil
	fieldHoldLinger
	fieldHoldShares
	fieldHoldState
	Fields
)

// String names the field as its struct does.
func (f Field) String() string {
	return [...]string{
		"nothing", "Engine.phase", "Engine.closed",
		"line.terms", "line.asking", "line.current", "line.free", "line.deaf", "waiter.Want", "waiter.since",
		"claim.id", "claim.stage", "claim.verb", "claim.pause", "claim.tries", "claim.try", "claim.ticket", "claim.unsure",
		"claim.silent", "claim.kept", "claim.lease", "claim.again", "claim.blocker", "claim.turns", "claim.turnEnd",
		"claim.linger", "claim.deadline", "claim.renewAt", "claim.alarmed", "claim.failure", "claim.slept", "claim.keep",
		"claim.since", "claim.lost", "hold.until", "hold.linger", "hold.shares", "hold.state",
	}[f]
}

// An Encoder writes what engines will do as bytes, so that two that will do the same are the same bytes. Times are
// relative to Now and go no further than where they are compared; ids and tickets are ranks; slots are not seen.
type Encoder struct {
	Buf     []byte
	Now     Time
	Tickets []int64  // sorted; see AppendTickets
	IDs     []uint64 // sorted: the numbers of the claims that are known anywhere
	Skip    Field    // is left out, to see whether it matters

	// Waiter, Hold and Claim write what the caller knows of these.
	Waiter, Hold, Claim func(Slot)

	order []Slot
}

// Put writes a number.
func (x *Encoder) Put(v int64) { x.Buf = binary.AppendVarint(x.Buf, v) }

func (x *Encoder) put(f Field, v int64) {
	if f != x.Skip {
		x.Buf = binary.AppendVarint(x.Buf, v)
	}
}

// Flag writes a bit.
func (x *Encoder) Flag(b bool) { x.Put(bit(b)) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Rank is the place of a ticket among all that are known; that of 0 is 0.
func (x *Encoder) Rank(ticket int64) int64 {
	i, _ := slices.BinarySearch(x.Tickets, ticket)
	return int64(i)
}

// Ahead is how far off a time is, of which it only matters whether it has come.
func (x *Encoder) Ahead(t Time) int64 {
	if t == Never {
		return -1
	}
	return int64(max(0, t-x.Now) / time.Microsecond)
}

// Ago is how long ago a time was, of which no more than most matters.
func (x *Encoder) Ago(t Time, most time.Duration) int64 {
	if t == Never {
		return -1
	}
	return int64(min(x.Now-t, most) / time.Microsecond)
}

// AppendTickets appends the tickets that the engine knows.
func (e *Engine) AppendTickets(to []int64) []int64 {
	for i := range e.claims.all {
		if c := &e.claims.all[i]; c.stage != nowhere {
			to = append(to, c.ticket)
			if !e.conf.Ordered && (c.stage == queued || c.stage == quitting) {
				to = append(to, c.blocked().Ticket)
			}
		}
	}
	return to
}

// AppendIDs appends the numbers of its claims.
func (e *Engine) AppendIDs(to []uint64) []uint64 {
	for i := range e.claims.all {
		if c := &e.claims.all[i]; c.stage != nowhere {
			to = append(to, c.id)
		}
	}
	return to
}

// Encode writes the engine. What is only told, to observers or in errors, is left out: it decides nothing.
func (e *Engine) Encode(x *Encoder) {
	x.put(fieldEnginePhase, int64(e.phase))
	if e.phase == closing {
		x.put(fieldEngineClosed, x.Ago(e.closed, e.conf.Patience))
	}
	x.Put(int64(e.lines.used()))
	for l := range e.lines.all {
		if ln := &e.lines.all[l]; ln.terms.TTL != 0 {
			e.encodeLine(x, Slot(l))
		}
	}
}

func (e *Engine) encodeLine(x *Encoder, l Slot) {
	ln := &e.lines.all[l]
	x.Put(int64(l)) // they are served in this order
	x.put(fieldLineTerms, ln.terms.Weight)
	x.order = x.order[:0]
	for i := range e.claims.all {
		if c := &e.claims.all[i]; c.stage != nowhere && c.line == l {
			x.order = append(x.order, Slot(i))
		}
	}
	slices.SortFunc(x.order, func(a, b Slot) int { return int(e.claims.all[a].id) - int(e.claims.all[b].id) })
	index := func(c Slot) int64 { return int64(slices.Index(x.order, c)) }
	x.put(fieldLineAsking, index(ln.asking))
	x.put(fieldLineCurrent, index(ln.current))
	for c := ln.free; c != None; c = e.claims.at(c).next {
		x.put(fieldLineFree, index(c)+1)
	}
	x.put(fieldLineFree, 0)
	x.put(fieldLineDeaf, x.Ago(ln.deaf, e.conf.Patience))
	x.Put(int64(ln.length))
	for w := ln.first; w != None; w = e.waiters.at(w).next {
		e.encodeWaiter(x, w)
	}
	x.Put(int64(len(x.order)))
	for _, c := range x.order {
		e.encodeClaim(x, c)
	}
}

func (e *Engine) encodeWaiter(x *Encoder, w Slot) {
	wt := e.waiters.at(w)
	x.put(fieldWaiterWant, bit(wt.Try))
	x.put(fieldWaiterWant, int64(wt.Linger))
	x.put(fieldWaiterWant, int64(wt.MaxHold))
	x.put(fieldWaiterSince, x.Ago(wt.since, e.conf.Patience))
	if a := e.lines.at(wt.line).asking; a != None && e.claims.at(a).silent != Never {
		x.put(fieldWaiterSince, x.Ago(max(wt.since, e.claims.at(a).silent), queuedPatience*e.conf.Patience))
	}
	x.Waiter(w)
}

// encodeClaim writes what is read again of a claim in its stage.
func (e *Engine) encodeClaim(x *Encoder, c Slot) {
	cl := e.claims.at(c)
	id, _ := slices.BinarySearch(x.IDs, cl.id)
	x.put(fieldClaimID, int64(id))
	x.put(fieldClaimStage, int64(cl.stage))
	x.put(fieldClaimVerb, int64(cl.verb))
	x.put(fieldClaimTicket, x.Rank(cl.ticket))
	x.put(fieldClaimUnsure, int64(cl.unsure))
	patience := e.conf.Patience
	switch cl.stage {
	case asking, queued, quitting:
		x.put(fieldClaimPause, x.Ahead(cl.pause))
		x.put(fieldClaimTries, int64(cl.tries))
		x.put(fieldClaimTry, bit(cl.try))
		if cl.stage == quitting {
			x.put(fieldClaimSince, x.Ago(cl.since, patience))
		}
		x.put(fieldClaimSilent, x.Ago(cl.silent, queuedPatience*patience))
		if cl.stage != asking {
			// A place that was kept so long ago is neither trusted nor missed.
			x.put(fieldClaimKept, x.Ago(cl.kept, e.lines.at(cl.line).terms.TTL))
			x.put(fieldClaimLease, int64(cl.lease))
			x.put(fieldClaimAgain, x.Ahead(cl.again))
			if !e.conf.Ordered {
				x.put(fieldClaimBlocker, x.Rank(cl.blocked().Ticket))
			}
		}
		e.encodeAlarm(x, cl)
	case held, expiring, parting, attaching:
		x.put(fieldClaimTurnEnd, x.Ahead(cl.turnEnd))
		x.put(fieldClaimLinger, x.Ahead(cl.linger))
		x.put(fieldClaimDeadline, x.Ahead(cl.deadline))
		x.put(fieldClaimRenewAt, x.Ahead(cl.renewAt))
		x.put(fieldClaimFailure, bit(cl.failure != nil))
		x.put(fieldClaimSlept, bit(e.Slept > cl.slept))
		e.encodeAlarm(x, cl)
	case leaving, withdrawing, sweeping:
		x.put(fieldClaimPause, x.Ahead(cl.pause))
		x.put(fieldClaimTries, int64(cl.tries))
		x.put(fieldClaimSince, x.Ago(cl.since, patience))
		x.put(fieldClaimLost, int64(cl.lost))
	}
	if cl.keep > 0 {
		x.put(fieldClaimKeep, 1+x.Ahead(cl.keep))
	} else {
		x.put(fieldClaimKeep, 0)
	}
	x.put(fieldClaimTurns, int64(min(cl.turns, 1))+bit(cl.turns >= Turns))
	x.Put(int64(cl.holds))
	for h := cl.hold; h != None; h = e.holds.at(h).next {
		e.encodeHold(x, h)
	}
	x.Claim(c)
}

func (e *Engine) encodeAlarm(x *Encoder, cl *claim) {
	x.put(fieldClaimAlarmed, x.Ago(cl.alarmed, e.lines.at(cl.line).terms.TTL))
}

func (e *Engine) encodeHold(x *Encoder, h Slot) {
	hd := e.holds.at(h)
	x.put(fieldHoldUntil, x.Ahead(hd.until))
	x.put(fieldHoldLinger, int64(hd.linger))
	x.put(fieldHoldShares, int64(hd.shares))
	x.put(fieldHoldState, int64(hd.state))
	x.Hold(h)
}
