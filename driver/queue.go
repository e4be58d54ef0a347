package driver

import (
	"slices"
	"sort"
	"time"
)

// Holding is the rule. It reports how many claims at the head of a queue hold the lock: a claim holds while the weights
// of the claims up to and including it fit the capacity. Weights are in the order of the queue.
//
// Claims enter only at the tail, so a claim that holds goes on holding until it leaves or runs out. A stale view of the
// queue can make a client wait too long but never hold too early.
func Holding(capacity int64, weights []int64) int {
	for i, w := range weights {
		if w > capacity {
			return i
		}
		capacity -= w
	}
	return len(weights)
}

// A Queue has the claims of one name, and methods for all that can happen to them. It has no clock and no lock, and does no
// I/O: the caller passes the time, in microseconds of one clock that belongs to the store, from 0 up. Tests compare drivers with it
// step by step.
//
// The zero Queue is empty. An empty queue forgets its capacity. The store may forget Last too, once all later stamps for
// Enter are sure to be larger. Only its methods shorten the lease of an Entry.
//
// A method about a claim whose ticket is known does not look at all claims, unless some have run out: each of 10,000 waiters
// keeps its place alive.
type Queue struct {
	Capacity int64
	Last     int64   // highest ticket given
	Entries  []Entry // in ticket order

	first int64 // no entry stops counting earlier; 0 if unknown
}

// An Entry is one claim in a queue.
type Entry struct {
	ID, Client, Owner, Record string

	Ticket   int64
	Weight   int64
	Since    int64 // when it entered
	Ends     int64 // when its lease ends
	Delay    int64 // how long it keeps others out after that, if its client knew that it holds
	Asks     int64 // how often somebody has asked for the lock
	Notified bool  // its client knows that it holds
	Left     bool  // released, and kept until Ends
}

// gone reports when the entry no longer counts. If the lease ran out and its client knew that it holds, the weight stays for
// the lock-delay. A claim that left cleanly or only waited has no lock-delay.
func (e *Entry) gone() int64 {
	if e.Notified && !e.Left {
		return e.Ends + e.Delay
	}
	return e.Ends
}

func (e *Entry) live(now int64) bool { return now < e.Ends && !e.Left }

// Expire removes the claims that have run out. Every other method begins with it.
func (q *Queue) Expire(now int64) {
	if q.first != 0 && now < q.first {
		return
	}
	over := false
	q.first = 0
	for i := range q.Entries { // mostly no claim has run out, and a function of package slices would copy each entry
		if gone := q.Entries[i].gone(); gone <= now {
			over = true
		} else {
			q.sooner(gone)
		}
	}
	if over {
		q.Entries = slices.DeleteFunc(q.Entries, func(e Entry) bool { return e.gone() <= now })
	}
}

// sooner notes when an entry stops counting.
func (q *Queue) sooner(gone int64) {
	if q.first == 0 || gone < q.first {
		q.first = gone
	}
}

// Enter is [Driver.Enter]. The ticket is the larger of stamp and one more than the last.
func (q *Queue) Enter(now, stamp int64, c *Claim) (Place, error) {
	q.Expire(now)
	if i := q.at(c); i >= 0 {
		if !q.Entries[i].live(now) {
			return Place{}, ErrGone
		}
		return q.stay(now, i, c), nil
	}
	if c.Ticket != 0 {
		return Place{}, ErrGone
	}
	rest := Queue{Capacity: q.Capacity, Entries: q.Entries} // the claims that this one would join
	if c.Reclaim && c.Owner != "" {
		rest.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(e Entry) bool {
			// The run's own claims are not an earlier run's. A kept claim keeps everybody out, the next run too.
			return e.Owner == c.Owner && e.Client != c.Client && !e.Left
		})
	}
	if len(rest.Entries) == 0 {
		rest.Capacity = c.Capacity
	}
	if rest.Capacity != c.Capacity {
		return Place{}, &CapacityError{Have: rest.Capacity, Want: c.Capacity}
	}
	if c.Try && !rest.fits(c.Weight) {
		return q.place(now, len(q.Entries), 0), nil
	}
	q.Capacity, q.Entries = rest.Capacity, rest.Entries
	q.Last = max(q.Last+1, stamp)
	q.Entries = append(q.Entries, Entry{
		ID: c.ID, Client: c.Client, Owner: c.Owner, Record: c.Record,
		Ticket: q.Last, Weight: c.Weight, Since: now, Ends: now, Delay: micros(c.Delay),
	})
	return q.stay(now, len(q.Entries)-1, c), nil
}

// stay restarts the lease of entry i and returns its place. A lease is never made shorter.
func (q *Queue) stay(now int64, i int, c *Claim) Place {
	e := &q.Entries[i]
	ttl := c.Wait
	if i < q.Holding() {
		ttl, e.Notified = c.TTL, true
	}
	e.Ends = max(e.Ends, now+micros(ttl))
	q.sooner(e.gone())
	return q.place(now, i, e.Ends-now)
}

// Look returns the place of a claim and starts no lease: [Driver.Await] checks again with it. The error is [ErrGone] if the
// claim is not there.
func (q *Queue) Look(now int64, c *Claim) (Place, error) {
	q.Expire(now)
	i := q.at(c)
	if i < 0 || !q.Entries[i].live(now) {
		return Place{}, ErrGone
	}
	return q.place(now, i, 0), nil
}

// Renew is [Driver.Renew] for one claim.
func (q *Queue) Renew(now int64, c *Claim) (time.Duration, error) {
	q.Expire(now)
	i := q.at(c)
	if i < 0 || !q.Entries[i].live(now) {
		return 0, ErrGone
	}
	e := &q.Entries[i]
	weight, record, err := c.Amended(e.Weight, e.Record, i < q.Holding())
	if err != nil {
		return 0, err
	}
	e.Weight, e.Record = weight, record
	return q.stay(now, i, c).TTL, nil
}

// Leave is [Driver.Leave].
func (q *Queue) Leave(now int64, l *Release) error {
	q.Expire(now)
	i := q.at(l.Claim)
	if i < 0 || !q.Entries[i].live(now) {
		return ErrGone
	}
	if l.Keep > 0 && i < q.Holding() {
		q.Entries[i].Left, q.Entries[i].Ends = true, now+micros(l.Keep)
		q.sooner(q.Entries[i].Ends)
		return nil
	}
	q.Entries = slices.Delete(q.Entries, i, i+1)
	return nil
}

// Break is [Breaker.Break].
func (q *Queue) Break(now, ticket int64) (ClaimInfo, error) {
	_, s, err := q.Remove(now, ticket)
	return s, err
}

// Remove is [Breaker.Break], and also returns the removed entry, whose client must be alerted.
func (q *Queue) Remove(now, ticket int64) (Entry, ClaimInfo, error) {
	q.Expire(now)
	for i, e := range q.Entries {
		if e.Ticket == ticket || ticket == 0 {
			s := q.standing(now, i)
			q.Entries = slices.Delete(q.Entries, i, i+1)
			return e, s, nil
		}
	}
	return Entry{}, ClaimInfo{}, ErrGone
}

// Ask is [Breaker.Break] with Ask.
func (q *Queue) Ask(now, ticket int64) (ClaimInfo, error) {
	q.Expire(now)
	for i := range q.Entries {
		if e := &q.Entries[i]; e.Ticket == ticket || ticket == 0 {
			if !e.live(now) || i >= q.Holding() {
				break
			}
			e.Asks++
			return q.standing(now, i), nil
		}
	}
	return ClaimInfo{}, ErrGone
}

// Asks is [Renewal.Asks] for a renewed claim.
func (q *Queue) Asks(c *Claim) int64 {
	if i := q.at(c); i >= 0 {
		return q.Entries[i].Asks
	}
	return 0
}

// Wake returns the claims that hold and are not notified yet, and counts them as notified. The driver that changed the queue
// calls it and notifies them.
func (q *Queue) Wake(now int64) []Entry {
	q.Expire(now)
	var woken []Entry
	for i := range q.Holding() {
		if e := &q.Entries[i]; !e.Notified && e.live(now) {
			e.Notified = true
			woken = append(woken, *e)
		}
	}
	return woken
}

// Next reports when the first of the entries stops counting, if nothing happens before that. It is false for an empty queue.
func (q *Queue) Next() (at int64, ok bool) {
	for i := range q.Entries {
		if gone := q.Entries[i].gone(); !ok || gone < at {
			at, ok = gone, true
		}
	}
	return at, ok
}

// List returns the queue as an observer sees it, without changing it.
func (q *Queue) List(now int64) []ClaimInfo {
	var list []ClaimInfo
	left, holds := q.Capacity, true
	for i := range q.Entries {
		if q.Entries[i].gone() <= now {
			continue // an expired claim keeps nobody from holding
		}
		s := q.standing(now, i)
		holds = holds && s.Weight <= left
		left -= s.Weight
		s.Holds = holds
		list = append(list, s)
	}
	return list
}

// Holding reports how many entries at the head hold the lock. It is the rule, [Holding], without a copy of the weights: most
// queues are asked several times a call, and copying the weights would cost more than the answer.
func (q *Queue) Holding() int {
	left := q.Capacity
	for i := range q.Entries {
		if q.Entries[i].Weight > left {
			return i
		}
		left -= q.Entries[i].Weight
	}
	return len(q.Entries)
}

func (q *Queue) fits(weight int64) bool {
	left := q.Capacity
	for i := range q.Entries {
		left -= q.Entries[i].Weight
	}
	return weight <= left
}

// Soon is Next, or an earlier time, and looks at no entry. It is 0 for an empty queue, or if a look is needed: see Expire.
func (q *Queue) Soon() int64 {
	if len(q.Entries) == 0 {
		return 0
	}
	return q.first
}

// at returns the index of a claim, or -1.
func (q *Queue) at(c *Claim) int {
	if c.Ticket != 0 {
		i := sort.Search(len(q.Entries), func(i int) bool { return q.Entries[i].Ticket >= c.Ticket })
		if i < len(q.Entries) && q.Entries[i].ID == c.ID {
			return i
		}
	}
	return q.find(c.ID)
}

func (q *Queue) find(id string) int {
	for i := range q.Entries {
		if q.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

// place returns the place of entry i, or, if i is one past the tail, the place of a new entry.
func (q *Queue) place(now int64, i int, ttl int64) Place {
	p := Place{Ahead: i, TTL: time.Duration(ttl) * time.Microsecond}
	if i < len(q.Entries) {
		p.Ticket, p.Holds = q.Entries[i].Ticket, i < q.Holding()
	}
	if p.Holds || i == 0 {
		return p
	}
	p.Retry = time.Duration(q.alarm(i)-now) * time.Microsecond
	p.Blocker = q.standing(now, 0)
	return p
}

// alarm reports when a claim may run out that only the claim behind the first i has to notice. The first waiting claim
// notices the holding claims. Every other waiting claim notices the claim before it.
//
// So at the end of each lease some client asks, even if others have left, died or come to hold meanwhile: if the next claim
// is dead, the claim behind it notices. If 200 clients wait for a holder that has died, only one asks at the end of its
// lease; when each client noticed all claims ahead, 199 asked (TestLeaseEndsForOne).
func (q *Queue) alarm(i int) int64 {
	if i > q.Holding() {
		return q.Entries[i-1].gone()
	}
	first := q.Entries[0].gone()
	for j := range q.Entries[1:i] {
		first = min(first, q.Entries[1+j].gone())
	}
	return first
}

func (q *Queue) standing(now int64, i int) ClaimInfo {
	e := &q.Entries[i]
	left := e.Ends - now
	if left == 0 {
		left = -1 // its lease has just run out; 0 would mean unknown
	}
	return ClaimInfo{
		Ticket: e.Ticket, Weight: e.Weight, Holds: i < q.Holding(), Left: e.Left, Record: e.Record,
		Since:     time.Duration(now-e.Since) * time.Microsecond,
		Remaining: time.Duration(left) * time.Microsecond,
	}
}

func micros(d time.Duration) int64 { return d.Microseconds() }
