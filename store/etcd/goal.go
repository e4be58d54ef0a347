package etcd

import (
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
)

// A goal decides the moves of a call, and does nothing else. Given the queue as it was last read and the answer to the last
// move, it returns the next move. These are the cases:
//
//	                                           view                        answer
//	the call begins                            nil, or read before         nil
//	the queue was read                         the present queue           nil
//	the transaction was applied                the present queue, or       made
//	                                           nil if it is not known
//	its conditions were not met                the present queue, or nil   blocked
//	a lease that was needed has ended          the former queue            leaseless
//
// The goals are joins, stands, lives, leaves, stays and amends.
type goal func(s *seat, v *view, was *answer) move

// A seat is a goal's knowledge of the claim, except the queue.
type seat struct {
	c      *driver.Claim
	folder string
	key    string // "" while the claim has no lease to name its key for
	text   string // the value that joins writes
	most   int    // limit of the claims that one transaction removes

	// From the local claim, before each move:
	known             bool  // the key was seen, and was not found gone
	created, modified int64 // revisions of the key when it was last seen
	has               hold  // the claim's present leases

	alive hold  // the leases that were kept alive before the view was read
	fresh bool  // the present leases need no keep-alive
	hand  hold  // the leases in hand: see hangs
	by    wants // purpose of the leases in hand
}

// A hold is a claim's two leases: life, by which the claim lives, and on, to which its key is attached. Mostly they are one
// lease.
type hold struct{ life, on grant }

// A grant is a lease with the leader's term when it was granted, or an earlier term.
type grant struct {
	id   int64
	term uint64
}

// apart reports whether the two leases differ.
func (h hold) apart() bool { return h.life.id != h.on.id }

// in reports whether both leases were granted in a term: see term.go.
func (h hold) in(term uint64) bool { return h.life.term == term && h.on.term == term }

// same reports whether two holds have the same leases.
func (h hold) same(o hold) bool { return h.life.id == o.life.id && h.on.id == o.on.id }

// handed reports whether the leases in hand serve this purpose, and fit the claim's present leases: another call may have
// changed these meanwhile.
func (s *seat) handed(what wants) bool {
	if what == wantsNew {
		return s.by == what && s.hand.apart() == s.has.apart()
	}
	return s.by == what && s.hand.life.id == s.has.life.id
}

// A view is the queue as it was last read: at least the claim's own key, and the keys ahead of it or only their head.
type view struct {
	q    queue
	seen int64  // the revision at which the keys ahead were read
	term uint64 // the leader's term when the claim's own key was read, or a later term
	head bool   // only the head of the keys ahead was read
}

func (v *view) queue() queue {
	if v == nil {
		return nil
	}
	return v.q
}

// revision is 0 if nothing was read.
func (v *view) revision() int64 {
	if v == nil {
		return 0
	}
	return v.seen
}

// own returns the index of the claim, or -1. A key with another create revision was put later, by another client or by a
// late request, and is not the claim.
func (s *seat) own(v *view) int {
	i := v.q.Find(s.c.ID)
	if i < 0 || !is(s.c, &v.q[i]) || s.created != 0 && (s.created != v.q[i].created || s.key != v.q[i].key) {
		return -1
	}
	return i
}

// An answer is the outcome of a move. If the outcome is unknown, there is no answer, and the call fails.
type answer struct {
	of        move
	met       bool // the conditions of a transaction were met
	leaseless bool // a lease that the move needs has ended, so nothing was changed
}

func (a *answer) made(how change) bool { return a != nil && a.met && a.of.changes == how }
func (a *answer) blocked() bool        { return a != nil && a.of.txn != nil && !a.met && !a.leaseless }
func (a *answer) unkept() bool         { return a != nil && a.leaseless && a.of.txn == nil }
func (a *answer) lapsed(how change) bool {
	return a != nil && a.leaseless && a.of.txn != nil && a.of.changes == how
}

// A move is the next step of a call. A move with an end ends the call. Else it sends txn, if there is one; else it gets
// leases, if it wants some; else it reads, and keeps the claim's leases alive first if keeps is set.
type move struct {
	txn      *txn
	changes  change
	modified int64  // of a change of the claim's key: its mod revision before; 0 if it is not there
	next     *entry // of the same: the key after it, but for the revision; nil if the key is removed or put
	many     int    // number of other claims in the transaction

	wants wants
	keeps bool
	reads reading

	after end // of takesIt: the end once the key is removed
	end   end
	why   error        // of endRefused and endExpelled
	place driver.Place // of endOutside, endWaits and endHolds
	at    int          // of endLives, endWaits and endHolds: the claim's index in the view
}

// A change says what a transaction does to the claim's key.
type change int

const (
	evicts     change = iota // nothing: it removes other claims
	entersIt                 // puts it
	hangsIt                  // attaches it to the leases in hand
	rewritesIt               // writes its value, and leaves it attached to its lease
	takesIt                  // removes it
)

// A reading says which keys are read.
type reading int

const (
	readsPlace reading = iota // the claim's key, and the keys ahead of it
	readsKey                  // the claim's key
	readsQueue                // all keys of the name
)

// wants says what leases are for.
type wants int

const (
	wantsNone  wants = iota
	wantsNew         // replace the claim's leases
	wantsLong        // outlive the claim's lease by the lock-delay; for the key
	wantsShort       // keep the key for a while after the claim left
)

// An end says why a goal has no next move.
type end int

const (
	goesOn      end = iota // there is a next move
	endEntered             // the key was put
	endStands              // the claim is in the queue already, by an earlier request or by another driver
	endSpoilt              // the lease cannot serve the claim: it ended, or another client put its key
	endRefused             // the claim may not enter, and has not; or it may not be amended
	endOutside             // the claim only tried, and has not entered
	endExpelled            // the claim had entered and may not stay, and was removed
	endWaits               // the claim waits
	endHolds               // the claim holds
	endLives               // the claim is in the queue, and its leases have their whole time
	endGone                // the key is not there
	endKept                // the claim has left, and its key is kept
	endOther               // the claim has another ticket than the caller names
	endLost                // a lease of the claim has ended
	endLeft                // the claim is removed, or kept
	endUnheld              // the claim does not hold, so it cannot be kept
	endAmended             // the claim is as the amendment wants it
)

// joins makes a claim enter that is not known to be in its queue. Without a view, it takes the queue for empty: the
// transaction fails if it is not, and returns it.
func joins(s *seat, v *view, was *answer) move {
	at, found := keyAt(v.queue(), s.key), v.queue().Find(s.c.ID)
	switch {
	case was.made(takesIt):
		return move{end: was.of.after}
	case found >= 0 && at > found && v.q[at].ID == s.c.ID: // another driver has put the claim since the queue was read
		m, list := takes(&v.q[at], endStands), op{verb: opList, key: s.folder}
		m.txn.then, m.txn.otherwise = append(m.txn.then, list), []op{list}
		return m
	case was.made(entersIt):
		return move{end: endEntered}
	case was.lapsed(entersIt): // the lease has ended, so etcd can apply no earlier request with it either
		return move{end: endSpoilt}
	case found >= 0:
		return move{end: endStands}
	}
	if p, why := v.queue().Admit(s.c); why != nil {
		return move{end: endRefused, why: why}
	} else if p != nil {
		return move{end: endOutside, place: *p}
	}
	earlier := v.queue().Earlier(s.c)
	switch {
	case at >= 0:
		return move{end: endSpoilt} // another client has put this very key
	case len(earlier) > s.most:
		return s.evicts(earlier[:s.most])
	}
	return s.enters(v, earlier)
}

// stands finds the place of a claim in its queue, and gives its leases their whole time. If the claim holds with a
// lock-delay, stands first attaches its key to a lease longer by the delay.
func stands(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after, why: was.of.why}
	case v == nil && was == nil:
		// A claim stands only if both its lease and its key are there. Somebody may have deleted the key while the lease
		// lives, and with a lock-delay the key outlives the lease.
		return move{keeps: s.known, reads: readsPlace}
	}
	if at := v.at(s); at >= 0 {
		if verdict, why := v.q.Judge(s.c, at); verdict == keyqueue.Refused {
			// The put of a claim that may wait has no condition on the other keys. Meanwhile the queue ran empty, and began
			// again with another capacity.
			m := takes(&v.q[at], endExpelled)
			m.why = why
			return m
		}
	}
	m := lives(s, v, was)
	if m.end != endLives {
		return m
	}
	m.place = v.q.Place(m.at)
	switch {
	case !m.place.Holds:
		m.end = endWaits
	case s.c.Delay == 0 || s.has.apart():
		m.end = endHolds
	case !s.handed(wantsLong):
		return move{wants: wantsLong}
	default:
		return s.hangs(&v.q[m.at], false)
	}
	return m
}

func (v *view) at(s *seat) int {
	if v == nil {
		return -1
	}
	return s.own(v)
}

// lives gives the leases of a claim in its queue their whole time: by keep-alives that count, or else by new leases. The
// rule is in term.go.
func lives(s *seat, v *view, was *answer) move {
	switch {
	case was.unkept():
		return move{end: endLost}
	case was.made(takesIt):
		return move{end: was.of.after}
	case v == nil, was.blocked(): // another request for the same claim came first
		return move{keeps: s.known, reads: readsKey}
	}
	at := s.own(v)
	switch {
	case at < 0:
		return s.absent(v)
	case s.fresh, s.alive.same(s.has) && s.has.in(v.term):
		return move{end: endLives, at: at}
	case !s.alive.same(s.has):
		return move{keeps: true, reads: readsKey}
	case !s.handed(wantsNew):
		return move{wants: wantsNew}
	}
	return s.hangs(&v.q[at], false)
}

// absent returns the move for a claim that is not in its queue, or not with the revision at which it was seen.
func (s *seat) absent(v *view) move {
	i := keyAt(v.q, s.key)
	switch {
	case !s.known || i < 0:
		return move{end: endGone}
	case v.q[i].Left: // by another client; the key stays, and has our lease in its name
		return move{end: endKept}
	case v.q[i].foreign || v.q[i].ID != s.c.ID:
		return move{end: endGone}
	case s.created == v.q[i].created:
		return move{end: endOther}
	}
	// A late request put the key again after the claim had gone. The key would keep everybody out until its lease ends. It
	// is removed only if unchanged: another driver may have found it, and kept the claim.
	return takes(&v.q[i], endGone)
}

// leaves removes a claim, if its key is unchanged. Another client changes the key only to keep the claim, and a plain
// deletion would free such a lock too early. The condition costs etcd and its client 25 µs of the 500 µs that a lock and
// unlock takes with both on one core.
func leaves(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after}
	case v == nil && was == nil:
		m := takes(&entry{key: s.key, modified: s.modified}, endLeft)
		m.txn.together = true
		return m
	case v == nil:
		return move{reads: readsKey}
	}
	at := s.own(v)
	if at < 0 {
		return s.absent(v)
	}
	return takes(&v.q[at], endLeft)
}

// stays marks a claim that holds as left, and attaches its key to a lease that nobody keeps alive.
func stays(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after} // of absent
	case was.made(hangsIt):
		return move{end: endLeft}
	case v == nil, was.blocked(): // such as by a request that attached the key to its longer lease
		return move{reads: readsQueue}
	}
	at := s.own(v)
	switch {
	case at < 0:
		return s.absent(v)
	case at >= v.q.Holding():
		return move{end: endUnheld}
	case !s.handed(wantsShort):
		return move{wants: wantsShort}
	}
	return s.hangs(&v.q[at], true)
}

// amends changes a claim's weight or record. It rewrites the key, on the same lease, if the key is unchanged since it was
// read. So an amendment that arrives after a later one, or after the claim left, changes nothing. The key keeps its create
// revision, so the claim keeps its place and its ticket. The watches of the claims behind it report a smaller weight.
func amends(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after} // of absent
	case was.made(rewritesIt):
		return move{end: endAmended}
	case was.lapsed(rewritesIt):
		return move{end: endLost}
	case v == nil, was.blocked():
		return move{reads: readsQueue}
	}
	at := s.own(v)
	if at < 0 {
		return s.absent(v)
	}
	e := v.q[at]
	weight, record, err := s.c.Amended(e.Weight, string(e.Record), at < v.q.Holding())
	switch {
	case err != nil:
		return move{end: endRefused, why: err}
	case weight == e.Weight && record == string(e.Record):
		return move{end: endAmended}
	}
	e.Weight, e.Record = weight, text(record)
	return writes(&v.q[at], &e, rewritesIt)
}
