package consul

import (
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
)

// A goal is what a call wants for its claim. It decides, and does nothing else: by the queue as it was read last and by the
// answer to the transaction before, it returns the next move. These are the cases:
//
//	                                           queue                      answer
//	the call begins                            nil, or what it has read   nil
//	the queue was read                         as it is                   nil
//	the transaction was applied, and read it   as it is                   made
//	the transaction was applied                nil                        made
//	something was in its way                   as it was before           blocked
//
// The goals are joins, stands, leaves, stays and amends. The method that pursues one has the same name without the s.
type goal func(s *seat, q *queue, was *answer) move

// A seat is what a goal knows of the claim beside its queue.
type seat struct {
	c           *driver.Claim
	folder, key string
	session     string
	record      []byte // what the lock's key shows
	text        []byte // what the claim's own key is to hold; of joins alone

	exclusive bool   // as localClaim has it, before each move
	state     state  // as localClaim has it, before each move
	heir      string // the session that gets the keys of a claim that is kept; "" while there is none; of stays alone
}

// An answer is what became of a move. A transaction whose outcome is unknown has none, and ends the call.
type answer struct {
	of  move
	bad *conflict // nil if the move was made
}

func (a *answer) made() bool    { return a != nil && a.bad == nil }
func (a *answer) blocked() bool { return a != nil && a.bad != nil }

// A move is what a call does next. It is one of three: a transaction, if it has operations; the end of the call, if it has
// an end; and with neither it reads the queue.
type move struct {
	ops []op
	out bool // of a transaction: the claim is out, and the operations take away what remains of it

	weighs *bool // whether the claim is exclusive by its key, after the operations or at the end; nil if that is as noted

	end     end
	why     error        // of endRefused and endExpelled
	place   driver.Place // of endOutside, endExpelled, endWaits and endHolds
	wait    *target      // of endWaits: what is to change first; nil if that is not known
	index   uint64       // of endHolds: of its key
	spoils  bool         // of endAgain: the session is of no more use
	delayed bool         // of endAgain: a lock-delay was in the way
}

// An end is why a goal has no next move.
type end int

const (
	goesOn      end = iota // there is a next move
	endEntered             // its key is there
	endAgain               // its key was not made, since others were quicker or its session is over
	endRefused             // it may not enter, and has not; or it may not be amended
	endOutside             // it only tried, and has not entered
	endExpelled            // it has entered and may not stay: it is to leave
	endWaits               // it stands and waits
	endHolds               // it stands and holds
	endGone                // it does not stand there by its session
	endLeft                // it is out, or another session has its keys
	endUnheld              // it does not hold, and so it cannot be kept
	endHeirless            // it needs a session that it is kept by
	endAmended             // it is as the amendment wants it
)

// reads is the move that reads the queue.
var reads = move{}

// asks is the move of a transaction that returns the queue as it is then.
func (s *seat) asks(ops ...[]op) move {
	return move{ops: append(slices.Concat(ops...), op{Verb: tree, Key: s.folder})}
}

// joins has a claim enter that does not stand in its queue. Mostly nothing is known of the queue: then the lock may well be
// free. So an exclusive claim asks for the lock's key too, although another may stand ahead of it: where it stands, and
// whether it keeps that key, is for stands to say.
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
		// Somebody has the lock's key, or it is in its lock-delay: stand in the queue without it. If it comes free between
		// the two requests, stands takes it.
		return s.asks(enters)
	}
	// If the claim's key is there, nobody knows by whose request.
	return move{end: endAgain, spoils: was.bad.sessionless() || was.bad.about[ownKey], delayed: was.bad.delayed()}
}

// admit decides whether a claim may enter a queue, and which claims of earlier runs go then. Nothing speaks against it if the
// queue is nil.
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

// stands has a claim that entered told where it stands, and takes the lock's key for an exclusive one whose turn it is.
func stands(s *seat, q *queue, was *answer) move {
	switch {
	case was.blocked() && !was.bad.delayed():
		return reads
	case q == nil && s.state == claimCalled && s.exclusive && !was.blocked():
		// What stood before it is gone, so the way is free, most likely. Should others stand before it yet, it gives the key
		// back, and who is at the head can take it from here meanwhile.
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
		// The lock passed on while this claim asked: it found the lock's key free, and others ahead. Until it has given the
		// key back, clients of Consul's own find the lock taken, as they will when the head takes it.
		return s.asks(returnLockKey(q, s, at))
	}
	return s.waits(q, at)
}

// judge is the verdict on a claim that has entered, and the reason why it is refused. Clients of other kinds may have a key there.
// And a claim that does not know its ticket may find claims of another capacity behind it, since an answer was lost: then it
// goes too.
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

// atTurn is the move of a claim whose turn it is by the order of the queue. It may have to take the lock's key before it
// holds.
func (s *seat) atTurn(q *queue, at int, was *answer) move {
	if s.holds(q, at) {
		e := q.entries[at]
		alone := e.exclusive()
		return move{
			end: endHolds, place: driver.Place{Ticket: e.ticket(), Holds: true, Ahead: at}, index: e.ModifyIndex, weighs: &alone,
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

// holds reports whether a claim holds: it is its turn, and it has what it needs. An exclusive one needs the lock's key. One
// that shares does not, but what is left of the lock's key may be in its lock-delay: then only the claims that held before
// that go on holding.
func (s *seat) holds(q *queue, at int) bool {
	shares := !q.entries[at].exclusive() && (s.state == claimHolding || !q.leftover())
	return at < q.entries.Holding() && (q.hasLockKey(s.session) || shares)
}

// waits is the end of a claim that does not hold now. A try does not wait.
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

// tooLate is the end of a try that has entered and does not hold.
func (s *seat) tooLate(q *queue) move {
	return move{end: endExpelled, place: outside(q.except(func(e *entry) bool { return e.Session == s.session }))}
}

// outside is the place of a try that is not in the queue.
func outside(q *queue) driver.Place {
	switch n := len(q.entries); {
	case n > 0:
		return driver.Place{Ahead: n, Blocker: q.standing(0)}
	case q.barred():
		return driver.Place{Ahead: 1, Blocker: q.stranger()}
	}
	return driver.Place{}
}

// leaves takes a claim out. If it is not known to have the lock's key, the transaction reads that key, so the queue after it
// has no claims. If the claim has the key nevertheless, such as by a request that came late, another transaction takes it
// away.
func leaves(s *seat, q *queue, was *answer) move {
	switch {
	case was != nil && was.of.out:
		return move{end: endLeft} // also if somebody else has the lock's key by now
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

// stays hands the keys of a claim that holds over to a session that lasts as long as the lock is to stay taken.
func stays(s *seat, q *queue, was *answer) move {
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

// amends changes a claim where it stands, if nobody has changed it since it was read. So an amendment that arrives after a later
// one, or after the claim has left, finds another index and changes nothing.
func amends(s *seat, q *queue, was *answer) move {
	switch {
	case was.made():
		return move{end: endAmended, weighs: was.of.weighs}
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
		return move{end: endRefused, why: err, weighs: &alone}
	case weight == e.Weight && record == e.Record: // an earlier request whose answer was lost did it
		return move{end: endAmended, weighs: &alone}
	}
	e.Weight = weight
	alone = e.exclusive()
	return move{ops: rewrite(q, at, weight, record), weighs: &alone}
}
