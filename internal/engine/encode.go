package engine

import (
	"encoding/binary"
	"slices"
	"time"
)

// CopyFrom makes the engine a copy of another, and reuses its own memory.
func (e *Engine) CopyFrom(o *Engine) {
	lines, claims, turns, common := e.lines, e.claims, e.turns, e.common
	*e = *o
	e.lines, e.claims, e.turns, e.common = lines, claims, turns, common
	e.lines.CopyFrom(&o.lines)
	e.claims.CopyFrom(&o.claims)
	e.turns.CopyFrom(&o.turns)
	effects := common.effects[:0]
	*common = *o.common
	common.effects = effects
}

// A Field is one part of an encoding.
type Field uint8

// The fields of an encoding. Each is a field of a struct, and has its name.
const (
	NoField Field = iota
	fieldCommonClosed
	fieldLineTerms
	fieldLineAsking
	fieldLineCurrent
	fieldLineFree
	fieldLineUnanswered
	fieldTurnLinger
	fieldTurnMaxHold
	fieldTurnSince
	fieldClaimID
	fieldClaimStage
	fieldClaimVerb
	fieldClaimDue
	fieldClaimTries
	fieldClaimTry
	fieldClaimTicket
	fieldClaimUnsure
	fieldClaimSilent
	fieldClaimPlace
	fieldClaimTurns
	fieldClaimTurnEnd
	fieldClaimLinger
	fieldClaimDeadline
	fieldClaimAlarm
	fieldClaimErr
	fieldClaimSlept
	fieldClaimKeep
	fieldClaimSince
	fieldClaimLost
	fieldClaimAmend
	fieldTurnShares
	fieldTurnState
	Fields
)

// String returns the field's name, with its struct's.
func (f Field) String() string {
	return [...]string{
		"nothing", "Common.closed",
		"line.terms", "line.asking", "line.current", "line.free", "line.unanswered", "turn.linger", "turn.maxHold", "turn.since",
		"claim.id", "claim.stage", "claim.verb", "claim.due", "claim.tries", "claim.try", "claim.ticket", "claim.unsure",
		"claim.silent", "claim.place", "claim.turns", "claim.turnEnd",
		"claim.linger", "claim.deadline", "claim.alarm", "claim.err", "claim.slept", "claim.keep",
		"claim.since", "claim.lost", "claim.amend", "turn.shares", "turn.state",
	}[f]
}

// An Encoder encodes the future behaviour of engines: two engines with the same future have the same bytes. Times are
// relative to Now and bounded by the comparisons that read them; ids and tickets are ranks; slots do not appear.
type Encoder struct {
	Buf     []byte
	Now     Time
	Tickets []int64  // sorted; see AppendTickets
	IDs     []uint64 // sorted: the numbers of all known claims
	Skip    Field    // left out of the encoding, to test whether it matters

	// Waiter, Hold and Claim write the caller's own state of a slot.
	Waiter, Hold, Claim func(Slot)

	order []Slot
}

// Put writes a number.
func (x *Encoder) Put(v int64) {
	if -64 <= v && v < 64 { // the common case
		x.Buf = append(x.Buf, byte(v<<1^v>>63))
		return
	}
	x.Buf = binary.AppendVarint(x.Buf, v)
}

func (x *Encoder) put(f Field, v int64) {
	if f != x.Skip {
		x.Put(v)
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

// Rank returns the rank of a ticket among all known tickets. The rank of 0 is 0.
func (x *Encoder) Rank(ticket int64) int64 {
	i, _ := slices.BinarySearch(x.Tickets, ticket)
	return int64(i)
}

// Ahead encodes a time of which only its distance in the future matters, 0 once it has come.
func (x *Encoder) Ahead(t Time) int64 {
	if t == Never {
		return -1
	}
	return int64(max(0, t-x.Now) / time.Microsecond)
}

// Ago encodes how long ago a time was, at most most.
func (x *Encoder) Ago(t Time, most time.Duration) int64 {
	if t == Never {
		return -1
	}
	return int64(min(x.Now-t, most) / time.Microsecond)
}

// AppendTickets appends all tickets that the engine knows.
func (e *Engine) AppendTickets(to []int64) []int64 {
	for i := range e.claims.All {
		if c := &e.claims.All[i]; c.stage != nowhere {
			to = append(to, c.ticket)
			if !e.common.Conf.Ordered && (c.stage == queued || c.stage == quitting) {
				to = append(to, c.place.blocker.Ticket)
			}
		}
	}
	return to
}

// AppendIDs appends the numbers of the engine's claims.
func (e *Engine) AppendIDs(to []uint64) []uint64 {
	for i := range e.claims.All {
		if c := &e.claims.All[i]; c.stage != nowhere {
			to = append(to, c.id)
		}
	}
	return to
}

// Encode writes the engine, without data for observers and errors only: that data decides nothing.
func (e *Engine) Encode(x *Encoder) {
	closed := e.common.closed
	if e.closing() && !e.Clearing() {
		closed = x.Now // the moment no longer matters: nothing ends because of it any more
	}
	x.put(fieldCommonClosed, x.Ago(closed, e.common.Conf.Patience))
	x.Put(int64(e.lines.Used()))
	for l := range e.lines.All {
		if ln := &e.lines.All[l]; ln.terms != nil {
			e.encodeLine(x, Slot(l))
		}
	}
}

func (e *Engine) encodeLine(x *Encoder, l Slot) {
	ln := &e.lines.All[l]
	x.Put(int64(l)) // lines are served in this order
	x.put(fieldLineTerms, ln.terms.Weight)
	x.order = x.order[:0]
	for i := range e.claims.All {
		if c := &e.claims.All[i]; c.stage != nowhere && c.line == l {
			x.order = append(x.order, Slot(i))
		}
	}
	slices.SortFunc(x.order, func(a, b Slot) int { return int(e.claims.All[a].id) - int(e.claims.All[b].id) })
	index := func(c Slot) int64 { return int64(slices.Index(x.order, c)) }
	x.put(fieldLineAsking, index(ln.asking))
	x.put(fieldLineCurrent, index(ln.current))
	for c := ln.free.First; c != None; c = e.claims.At(c).links.Next {
		x.put(fieldLineFree, index(c)+1)
	}
	x.put(fieldLineFree, 0)
	x.put(fieldLineUnanswered, x.Ago(max(ln.unanswered, e.oldest(x.Now)), e.common.Conf.Patience))
	x.Put(int64(ln.waiters.Len))
	for w := ln.waiters.First; w != None; w = e.turns.At(w).links.Next {
		e.encodeWaiter(x, w)
	}
	x.Put(int64(len(x.order)))
	for _, c := range x.order {
		e.encodeClaim(x, c)
	}
}

func (e *Engine) encodeWaiter(x *Encoder, w Slot) {
	wt := e.turns.At(w)
	x.put(fieldTurnState, int64(wt.state))
	x.put(fieldTurnLinger, int64(wt.linger))
	x.put(fieldTurnMaxHold, int64(wt.maxHold))
	since, most := wt.since, e.common.Conf.Patience
	if wt.state != trying {
		since = max(since, e.owed())
	}
	if a := e.lines.At(wt.in).asking; a != None && e.claims.At(a).silent != Never {
		most *= queuedPatience
	}
	x.put(fieldTurnSince, x.Ago(since, most))
	x.Waiter(w)
}

// oldest returns when the first of the present waiters came. An earlier unanswered request matters no more than one from
// then, because each waiter's patience counts from its own arrival, or later.
func (e *Engine) oldest(now Time) Time {
	since := now
	for l := range e.lines.All {
		if ln := &e.lines.All[l]; ln.waiters.Len > 0 {
			since = min(since, e.turns.At(ln.waiters.First).since)
		}
	}
	return since
}

// owed returns the earliest time since when the store may owe an answer. For a waiter that came earlier, patience counts
// from that time, so its own arrival does not matter.
func (e *Engine) owed() Time {
	since := Never
	for i := range e.lines.All {
		if ln := &e.lines.All[i]; ln.terms != nil {
			since = min(since, ln.unanswered)
		}
	}
	for i := range e.claims.All {
		switch c := &e.claims.All[i]; c.stage {
		case asking, queued, displaced:
			since = min(since, c.silent)
		case quitting:
			since = min(since, c.silent, c.since)
		case leaving, withdrawing, sweeping:
			since = min(since, c.since)
		}
	}
	return since
}

// encodeClaim writes the fields of a claim that its stage still reads.
func (e *Engine) encodeClaim(x *Encoder, c Slot) {
	cl := e.claims.At(c)
	id, _ := slices.BinarySearch(x.IDs, cl.id)
	x.put(fieldClaimID, int64(id))
	x.put(fieldClaimStage, int64(cl.stage))
	x.put(fieldClaimVerb, int64(cl.verb))
	x.put(fieldClaimTicket, x.Rank(cl.ticket))
	x.put(fieldClaimUnsure, int64(cl.unsure))
	patience := e.common.Conf.Patience
	switch cl.stage {
	case asking, queued, displaced, quitting:
		x.put(fieldClaimDue, x.Ahead(cl.due))
		x.put(fieldClaimTries, int64(cl.tries))
		x.put(fieldClaimTry, bit(cl.try))
		oldest := e.oldest(x.Now)
		if cl.stage == quitting {
			x.put(fieldClaimSince, x.Ago(max(cl.since, oldest), patience))
		}
		x.put(fieldClaimSilent, x.Ago(max(cl.silent, oldest), queuedPatience*patience))
		x.put(fieldClaimPlace, bit(cl.place != noPlace))
		if cl.stage == queued || cl.stage == quitting {
			// A place that was kept this long ago is neither trusted nor missed.
			x.put(fieldClaimPlace, x.Ago(cl.place.kept, e.lines.At(cl.line).terms.TTL))
			x.put(fieldClaimPlace, int64(cl.place.lease))
			x.put(fieldClaimPlace, int64(cl.place.blocker.Remaining))
			if !e.common.Conf.Ordered {
				x.put(fieldClaimPlace, x.Rank(cl.place.blocker.Ticket))
			}
		}
		x.put(fieldClaimAlarm, bit(cl.alarm))
	case held, expiring:
		x.put(fieldClaimTurnEnd, x.Ahead(cl.turnEnd))
		x.put(fieldClaimLinger, x.Ahead(cl.linger))
		x.put(fieldClaimDeadline, x.Ahead(cl.deadline))
		x.put(fieldClaimDue, x.Ahead(cl.due))
		x.put(fieldClaimErr, bit(cl.err != nil))
		x.put(fieldClaimAmend, int64(cl.amend))
		x.put(fieldClaimSlept, bit(e.common.Slept > cl.slept))
		x.put(fieldClaimAlarm, bit(cl.alarm))
	case leaving, withdrawing, sweeping:
		x.put(fieldClaimDue, x.Ahead(cl.due))
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
	x.Put(int64(cl.holds.Len))
	for h := cl.holds.First; h != None; h = e.turns.At(h).links.Next {
		e.encodeHold(x, h)
	}
	x.Claim(c)
}

func (e *Engine) encodeHold(x *Encoder, h Slot) {
	hd := e.turns.At(h)
	x.put(fieldTurnMaxHold, x.Ahead(hd.until()))
	x.put(fieldTurnLinger, int64(hd.linger))
	x.put(fieldTurnShares, int64(hd.shares))
	x.put(fieldTurnState, int64(hd.state))
	x.Hold(h)
}
