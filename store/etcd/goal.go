package etcd

import (
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
)

// A goal is what a call wants for its claim. It decides, and does nothing else: by the queue as it was read last and by the
// answer to the transaction before, it returns the next move. These are the cases:
//
//	                                           view                        answer
//	the call begins                            nil, or what it has read    nil
//	the queue was read                         as it is                    nil
//	the transaction was applied                as it is, or nil if that    made
//	                                           is not known
//	its conditions were not met                as it is, or nil            blocked
//	a lease that was needed is no more         as it was before            leaseless
//
// The goals are joins, stands, lives, leaves, stays and amends.
type goal func(s *seat, v *view, was *answer) move

// A seat is what a goal knows of the claim beside its queue.
type seat struct {
	c      *driver.Claim
	folder string
	key    string // "" while no lease is known that names one
	text   string // what the key is to hold; of joins alone
	most   int    // how many claims one transaction removes at most

	// By what the driver knows of the claim, before each move:
	known             bool  // its key was seen, and was not found gone
	created, modified int64 // of the key, as it was last seen
	has               hold  // the leases that it has

	kept  hold  // the leases that were kept alive before the view was read
	fresh bool  // the leases that it has are as good as new, and no keep-alive is needed
	hand  hold  // leases that are in hand for it: see hangs
	by    wants // what those in hand are for
}

// A hold is the leases of a claim: the one that it lives by, and that which its key hangs on, mostly the same.
type hold struct{ life, on grant }

// A grant is a lease, with the term of the leader in which it was granted, or of an earlier one.
type grant struct {
	id   int64
	term uint64
}

// apart reports whether the key hangs on another lease than the claim lives by.
func (h hold) apart() bool { return h.life.id != h.on.id }

// in reports whether both leases are of a term: see term.go.
func (h hold) in(term uint64) bool { return h.life.term == term && h.on.term == term }

// same reports whether two holds are of the same leases.
func (h hold) same(o hold) bool { return h.life.id == o.life.id && h.on.id == o.on.id }

// handed reports whether the leases in hand are for this, and for the claim as it is now: another call may have hung its key elsewhere
// since they came to hand.
func (s *seat) handed(what wants) bool {
	if what == wantsNew {
		return s.by == what && s.hand.apart() == s.has.apart()
	}
	return s.by == what && s.hand.life.id == s.has.life.id
}

// A view is the queue as it was read last: at least what stands ahead of the claim, or the head of that, and its own key.
type view struct {
	q    queue
	seen int64  // the revision at which what stands ahead was so
	term uint64 // of the leader that has told of the claim's own key, or a later one
	head bool   // of what stands ahead, only the head was read
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

// own returns where the claim stands, or -1. By another revision of its creation it is a key that was put later: a foreign one, or
// by a request that came late.
func (s *seat) own(v *view) int {
	i := v.q.Find(s.c.ID)
	if i < 0 || !is(s.c, &v.q[i]) || s.created != 0 && (s.created != v.q[i].created || s.key != v.q[i].key) {
		return -1
	}
	return i
}

// An answer is what became of a move. A request whose outcome is unknown has none, and ends the call.
type answer struct {
	of        move
	met       bool // the conditions of a transaction were met
	leaseless bool // a lease is no more that the move needs, and nothing was changed
}

func (a *answer) made(how change) bool { return a != nil && a.met && a.of.changes == how }
func (a *answer) blocked() bool        { return a != nil && a.of.txn != nil && !a.met && !a.leaseless }
func (a *answer) unkept() bool         { return a != nil && a.leaseless && a.of.txn == nil }
func (a *answer) leaves(how change) bool {
	return a != nil && a.leaseless && a.of.txn != nil && a.of.changes == how
}

// A move is what a call does next: it ends, if it has an end; it sends a transaction, if there is one; it gets leases to have in hand,
// if it wants any; and else it reads, and before that it may keep the claim's leases alive.
type move struct {
	txn     *txn
	changes change
	was     int64  // of a change of the claim's key: the revision at which it was modified last, 0 if it is not there
	next    *entry // the key after it, but for the revision; nil if it is gone, or if the answer tells
	many    int    // how many other claims the transaction is about

	wants wants
	keeps bool
	reads reading

	after end // of takesIt: the end when that is made
	end   end
	why   error        // of endRefused and endExpelled
	place driver.Place // of endOutside, endWaits and endHolds
	at    int          // of endWaits and endHolds: where the claim stands in the view
}

// A change says what a transaction does to the claim's key.
type change int

const (
	evicts    change = iota // nothing: it removes others
	entersIt                // puts it
	hangsIt                 // hangs it on other leases
	rewritten               // writes it, on its lease
	takesIt                 // takes it out
)

// A reading says what is read.
type reading int

const (
	readsPlace reading = iota // the claim's key, and what stands ahead of it
	readsKey                  // the claim's key
	readsQueue
)

// wants says what leases are for.
type wants int

const (
	wantsNone  wants = iota
	wantsNew         // in place of those that the claim has
	wantsLong        // for the key, longer than that which the claim lives by
	wantsShort       // for a key that stays for a while
)

// An end is why a goal has no next move.
type end int

const (
	goesOn      end = iota // there is a next move
	endEntered             // its key was put
	endStands              // it stands there already, by an earlier request or another driver's
	endSpoilt              // its lease is no good for it: it is over, or its key is another's
	endRefused             // it may not enter, and has not; or it may not be amended
	endOutside             // it only tried, and has not entered
	endExpelled            // it entered and may not stay, and is out again
	endWaits               // it stands and waits
	endHolds               // it stands and holds
	endLives               // it stands, and has its whole time
	endGone                // its key is not there
	endKept                // its key is there, as one that has left and is kept
	endOther               // it stands by another ticket than is asked for
	endLost                // a lease that it lives by is no more
	endLeft                // it is out, or kept
	endUnheld              // it does not hold, and so it cannot be kept
	endAmended             // it is as the amendment wants it
)

// joins has a claim enter that is not known to stand in its queue. Mostly nothing is known of that. Then it is as if nobody were
// there, and the transaction finds out.
func joins(s *seat, v *view, was *answer) move {
	at, found := keyAt(v.queue(), s.key), v.queue().Find(s.c.ID)
	switch {
	case was.made(takesIt):
		return move{end: was.of.after}
	case found >= 0 && at > found && v.q[at].ID == s.c.ID: // another driver has put the claim since the queue was read
		m := takes(&v.q[at], endStands)
		m.txn.then, m.txn.otherwise = append(m.txn.then, op{verb: opList, key: s.folder}), []op{{verb: opList, key: s.folder}}
		return m
	case was.made(entersIt):
		return move{end: endEntered}
	case was.leaves(entersIt): // so that no earlier request for it can be applied any more either
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

// stands has a claim told where it stands that is in its queue. It has its whole time then; one that holds with a lock-delay has
// its key hung on a lease longer by the delay before it is told.
func stands(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after, why: was.of.why}
	case v == nil && was == nil:
		// Only the answers to both say that it stands: somebody may have deleted the key of a lease that lives, and with a
		// lock-delay the key outlives the lease.
		return move{keeps: s.known, reads: readsPlace}
	}
	if at := v.at(s); at >= 0 {
		if verdict, why := v.q.Judge(s.c, at); verdict == keyqueue.Refused {
			// A claim that waits in any case is put whoever else has come. Meanwhile the queue had run empty, and has begun anew.
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

// lives has a claim have its whole time that is in its queue: by keep-alives that count, or by new leases where they do not. The rule
// is in term.go.
func lives(s *seat, v *view, was *answer) move {
	switch {
	case was.unkept():
		return move{end: endLost}
	case was.made(takesIt):
		return move{end: was.of.after}
	case v == nil, was.blocked(): // another request for the same claim came between
		return move{keeps: s.known, reads: readsKey}
	}
	at := s.own(v)
	switch {
	case at < 0:
		return s.absent(v)
	case s.fresh, s.kept.same(s.has) && s.has.in(v.term):
		return move{end: endLives, at: at}
	case !s.kept.same(s.has):
		return move{keeps: true, reads: readsKey}
	case !s.handed(wantsNew):
		return move{wants: wantsNew}
	}
	return s.hangs(&v.q[at], false)
}

// absent is the move of a claim that does not stand in its queue as it was seen.
func (s *seat) absent(v *view) move {
	i := keyAt(v.q, s.key)
	switch {
	case !s.known || i < 0:
		return move{end: endGone}
	case v.q[i].Left: // by another client: the key stays, and is named for our lease
		return move{end: endKept}
	case v.q[i].foreign || v.q[i].ID != s.c.ID:
		return move{end: endGone}
	case s.created == v.q[i].created:
		return move{end: endOther}
	}
	// It was put once more after the claim had gone, by a request that came late. It would keep everybody out until its lease ends.
	// Another driver may have found it since, and kept the claim.
	return takes(&v.q[i], endGone)
}

// leaves takes a claim out. Mostly nobody has changed its key, which another client does only to keep it. A plain deletion would
// free such a lock too early. It costs etcd and its client 25 µs less, of the 500 that a lock and unlock takes with both on one
// core.
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

// stays marks a claim that holds as one that left, and hangs it on a lease that nobody keeps alive.
func stays(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after} // of absent
	case was.made(hangsIt):
		return move{end: endLeft}
	case v == nil, was.blocked(): // such as by one that hung the key on its longer lease
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

// amends changes a claim where it stands. The claim's key is written anew, on the lease that it hangs on, unless somebody has
// changed the key since it was read; so an amendment that arrives after a later one, or after the claim has left, finds another
// revision and changes nothing. The key keeps its create revision, which is the claim's place and its ticket. Who waits behind
// it hears of its smaller weight.
func amends(s *seat, v *view, was *answer) move {
	switch {
	case was.made(takesIt):
		return move{end: was.of.after} // of absent
	case was.made(rewritten):
		return move{end: endAmended}
	case was.leaves(rewritten):
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
	return writes(&v.q[at], &e, rewritten)
}
