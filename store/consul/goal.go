package consul

import (
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
)

// A goal is the part of a call that decides, and does nothing else. From the latest queue and the answer to the last
// transaction it returns the next move. These are the cases:
//
//	                                           queue                      answer
//	the call begins                            nil, or what it has read   nil
//	the queue was read                         as it is                   nil
//	the transaction was applied, and read it   as it is                   made
//	the transaction was applied                nil                        made
//	something was in its way                   as it was before           blocked
//
// The goals are joins, stands, leaves, keeps and amends. The method that pursues one has the same name without the s.
type goal func(s *seat, q *queue, was *answer) move

// A seat is a goal's knowledge of its claim, beside the queue.
type seat struct {
	c           *driver.Claim
	folder, key string
	session     string
	record      []byte // the value of the lock's key
	text        []byte // the value for the claim's own key; only for joins

	exclusive bool   // as localClaim has it, before each move
	state     state  // as localClaim has it, before each move
	heir      string // the session that gets the keys of a kept claim, "" before there is one; only for keeps
}

// An answer is the outcome of a move. If the outcome of a transaction is unknown, there is no answer, and the call ends.
type answer struct {
	of  move
	bad *conflict // nil if the move was made
}

func (a *answer) made() bool    { return a != nil && a.bad == nil }
func (a *answer) blocked() bool { return a != nil && a.bad != nil }

// A move is the next step of a call, one of three: a transaction, if the move has operations; the end of the call, if it
// has an end; otherwise it reads the queue.
type move struct {
	ops []op
	out bool // of a transaction: the claim has left, and the operations remove its remains

	exclusive *bool // whether the claim is exclusive by its key, after the operations or at the end; nil if that does not change

	end     end
	why     error        // of endRefused and endExpelled
	place   driver.Place // of endOutside, endExpelled, endWaits and endHolds
	wait    *target      // of endWaits: the target that must change first; nil if unknown
	index   uint64       // of endHolds: of its key
	spoils  bool         // of endAgain: the session is no longer usable
	delayed bool         // of endAgain: a lock-delay was in the way
}

// An end is the reason why a goal has no next move.
type end int

const (
	goesOn      end = iota // there is a next move
	endEntered             // its key was made
	endAgain               // its key was not made: other clients were faster, or its session is over
	endRefused             // it may not enter and has not entered, or it may not be amended
	endOutside             // it was a try, and has not entered
	endExpelled            // it has entered and may not stay, so it must leave
	endWaits               // it waits in the queue
	endHolds               // it holds in the queue
	endGone                // its session has no key in the queue
	endLeft                // it has left, or another session has its keys
	endUnheld              // it does not hold, so it cannot be kept
	endHeirless            // it needs a session that keeps it
	endAmended             // it is amended
)

// reads is the move that only reads the queue.
var reads = move{}

// asks returns the move of a transaction that also reads the queue after it.
func (s *seat) asks(ops ...[]op) move {
	return move{ops: append(slices.Concat(ops...), op{Verb: tree, Key: s.folder})}
}

// joins makes a claim enter that is not in its queue. Usually the queue was not read before, and the lock may well be free.
// So an exclusive claim asks for the lock's key too, although another claim may be ahead of it. Afterwards stands finds the
// claim's place, and decides whether it keeps the lock's key.
func joins(s *seat, q *queue, was *answer) move {
	if was.made() {
		return move{end: endEntered}
	}
	earlier, m := admit(s.c, q)
	if m.end != goesOn {
		return m
	}
	earlier = earlier[:min(len(earlier), maxReclaim)] // stands removes the others
	enters, takes := slices.Concat(evict(q, earlier), newKey(q, s)), takeLockKeyAtOnce(q, s, earlier)
	switch {
	case !was.blocked():
		return s.asks(enters, takes)
	case !s.c.Try && was.bad.isOnlyAbout(lockKey):
		// Another session has the lock's key, or the key is in its lock-delay: enter the queue without it. If the key comes
		// free between the two requests, stands takes it.
		return s.asks(enters)
	}
	// If the claim's key exists, nobody knows which request made it.
	return move{end: endAgain, spoils: was.bad.sessionless() || was.bad.about[ownKey], delayed: was.bad.delayed()}
}

// admit decides whether a claim may enter a queue, and which claims of earlier runs must go then. A nil queue refuses
// nothing.
func admit(c *driver.Claim, q *queue) (earlier []*entry, m move) {
	if q == nil {
		return nil, m
	}
	earlier = q.entries.Earlier(c)
	rest := q.after(earlier)
	waits, why := q.entries.Admit(c)
	switch {
	case why != nil:
		return nil, move{end: endRefused, why: why}
	case rest.foreign && exclusive(c):
		return nil, move{end: endRefused, why: rest.foreignKey()}
	case waits != nil, c.Try && exclusive(c) && rest.barred():
		return nil, move{end: endOutside, place: outside(q)}
	}
	return earlier, m
}

// stands finds the place of a claim that has entered, and takes the lock's key for an exclusive claim at its turn.
func stands(s *seat, q *queue, was *answer) move {
	switch {
	case was.blocked() && !was.bad.delayed():
		return reads
	case q == nil && s.state == claimCalled && s.exclusive && !was.blocked():
		// The key ahead is gone, so most likely it is the claim's turn. If other claims are still ahead, this claim gives
		// the lock's key back; meanwhile the claim at the head can take that key from it.
		return s.asks(s.check(), takeLockKey(nil, s))
	case q == nil:
		return reads
	}
	at := q.at(s)
	if at < 0 || q.entries[at].Left {
		return move{end: endGone}
	}
	verdict, why := judge(s.c, q, at)
	switch verdict {
	case keyqueue.Refused:
		return move{end: endExpelled, why: why}
	case keyqueue.Evicts:
		earlier := q.entries[:at].Earlier(s.c)
		return s.asks(s.check(), evict(q, earlier[:min(len(earlier), maxReclaim)]))
	case keyqueue.TooLate:
		return s.tooLate(q)
	case keyqueue.Holds:
		return s.atTurn(q, at, was)
	}
	if q.hasLockKey(s.session) {
		// The lock was handed on meanwhile: the claim found the lock's key free, and others ahead. Until it has given the
		// key back, Consul's own clients find the lock taken, as they will when the head takes it.
		return s.asks(returnLockKey(q, s, at))
	}
	return s.waits(q, at)
}

// judge returns the verdict on a claim that has entered, and the reason for a refusal. Clients of other kinds may have a key
// in the folder. And a claim that does not know its ticket, since an answer was lost, may find claims of another capacity
// behind it. Then it must leave too.
func judge(c *driver.Claim, q *queue, at int) (keyqueue.Verdict, error) {
	verdict, why := q.entries.Judge(c, at)
	have := q.entries[at+1:].Another(c.Capacity)
	switch {
	case why != nil:
	case c.Ticket == 0 && have != 0:
		return keyqueue.Refused, &driver.CapacityError{Have: have, Want: c.Capacity}
	case q.foreign && exclusive(c):
		return keyqueue.Refused, q.foreignKey()
	}
	return verdict, why
}

// atTurn returns the move of a claim whose turn it is in the queue. The claim may have to take the lock's key before it
// holds.
func (s *seat) atTurn(q *queue, at int, was *answer) move {
	if s.holds(q, at) {
		e := q.entries[at]
		alone := e.exclusive()
		return move{
			end: endHolds, place: driver.Place{Ticket: e.ticket(), Holds: true, Ahead: at}, index: e.ModifyIndex, exclusive: &alone,
		}
	}
	takes := turn(q, s, at)
	if len(takes) > 0 && !was.blocked() {
		return s.asks(s.check(), takes)
	}
	m := s.waits(q, at) // a client of another kind has the lock, or a lock-delay is in the way
	if was.blocked() && m.end == endWaits {
		m.place.Retry = delayRetry
	}
	return m
}

// holds reports whether a claim holds: its turn has come, and it has the keys that it needs. An exclusive claim needs the
// lock's key. A shared claim does not; but while the lock's key is in its lock-delay, only the earlier holders hold.
func (s *seat) holds(q *queue, at int) bool {
	shares := !q.entries[at].exclusive() && (s.state == claimHolding || !q.leftover())
	return at < q.entries.Holding() && (q.hasLockKey(s.session) || shares)
}

// waits returns the end of a claim that does not hold now. A try does not wait.
func (s *seat) waits(q *queue, at int) move {
	if s.c.Try {
		return s.tooLate(q)
	}
	m := move{end: endWaits, place: driver.Place{Ticket: q.entries[at].ticket(), Ahead: at}, wait: q.waitsFor(at)}
	switch {
	case at > 0:
		m.place.Blocker = q.standing(0)
	case q.barred():
		m.place.Ahead, m.place.Blocker = 1, q.stranger()
	}
	return m
}

// tooLate returns the end of a try that has entered and does not hold.
func (s *seat) tooLate(q *queue) move {
	return move{end: endExpelled, place: outside(q.except(func(e *entry) bool { return e.Session == s.session }))}
}

// outside returns the place of a try that is not in the queue.
func outside(q *queue) driver.Place {
	switch n := len(q.entries); {
	case n > 0:
		return driver.Place{Ahead: n, Blocker: q.standing(0)}
	case q.barred():
		return driver.Place{Ahead: 1, Blocker: q.stranger()}
	}
	return driver.Place{}
}

// leaves removes a claim. If it is not known to have the lock's key, the transaction reads that key, and so does not return
// the claims of the queue. If the claim has the key after all, for example by a request that came late, another transaction
// removes the key.
func leaves(s *seat, q *queue, was *answer) move {
	switch {
	case was != nil && was.of.out:
		return move{end: endLeft} // also if another claim has the lock's key by now
	case was.made() && q != nil && q.hasLockKey(s.session):
		return move{ops: dropLockKey(s), out: true}
	case was.made():
		return move{end: endLeft}
	case was.blocked():
		return reads
	case q != nil && q.at(s) < 0:
		return move{end: endGone}
	}
	gone := slices.Concat(s.check(), []op{{Verb: remove, Key: s.key, about: ownKey}})
	if q != nil && q.hasLockKey(s.session) || q == nil && s.state == claimHolding && s.exclusive {
		return move{ops: slices.Concat(gone, dropLockKey(s))}
	}
	return move{ops: append(gone, op{Verb: tree, Key: s.folder + lockKeyName})}
}

// keeps hands the keys of a claim that holds to a session that lasts as long as the lock must stay taken.
func keeps(s *seat, q *queue, was *answer) move {
	switch {
	case was.made():
		return move{end: endLeft}
	case was.blocked(), q == nil:
		return reads
	}
	at := q.at(s)
	switch {
	case at < 0:
		return move{end: endGone}
	case at >= q.entries.Holding():
		return move{end: endUnheld}
	case s.heir == "":
		return move{end: endHeirless}
	}
	return move{ops: handOver(q, s, at)}
}

// amends changes a claim, unless somebody has changed it since it was read. So an amendment that arrives after a later one,
// or after the claim has left, finds another index and changes nothing.
func amends(s *seat, q *queue, was *answer) move {
	switch {
	case was.made():
		return move{end: endAmended, exclusive: was.of.exclusive}
	case was.blocked(), q == nil:
		return reads
	}
	at := q.at(s)
	if at < 0 || q.entries[at].Left {
		return move{end: endGone}
	}
	e := *q.entries[at]
	weight, record, err := s.c.Amended(e.Weight, e.Record, s.holds(q, at))
	alone := e.exclusive()
	switch {
	case err != nil:
		return move{end: endRefused, why: err, exclusive: &alone}
	case weight == e.Weight && record == e.Record: // an earlier request whose answer was lost made this amendment
		return move{end: endAmended, exclusive: &alone}
	}
	e.Weight = weight
	alone = e.exclusive()
	return move{ops: rewrite(q, at, weight, record), exclusive: &alone}
}
