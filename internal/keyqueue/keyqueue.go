// Package keyqueue is the rule of [driver.Queue] for stores in which every claim is a key, and the store orders the keys:
// etcd, Consul and ZooKeeper. It is pure.
//
// A [driver.Queue] decides before a claim enters. A store of keys often lets a claim enter first, and only then shows the
// claims ahead. So there are two questions. [Queue.Admit] asks before the key is made, with the last known queue or none.
// [Queue.Judge] asks after the key is made.
//
// The queue may have strangers. An entry of another library is foreign, and has no capacity. A claim may also have another
// capacity than the queue: it entered while its client read the queue, or its client died before it could remove the claim.
// A stranger counts as the whole capacity: it holds only at the head, and nobody behind it holds. A claim of the queue's own
// capacity may be behind a stranger, and waits until the stranger has gone.
package keyqueue

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// Facts are the parts of an entry that the rule reads.
type Facts struct {
	ID, Client, Owner, Record string

	Ticket, Weight, Capacity int64
	Since                    time.Time // when it entered, only for people since clocks differ; the zero Time means unknown
	Left                     bool      // released, and kept for a while
	Foreign                  bool      // of another library, without id and owner; Capacity is how much it takes when alone
}

// An Entry is a claim in the store.
type Entry interface{ Facts() Facts }

// A Queue is the claims of a name in the order in which they entered, or the first of them.
type Queue[E Entry] []E

// Capacity returns the capacity of the first claim that has one. If all entries are foreign, it returns the first entry's;
// in an empty queue, 0.
func (q Queue[E]) Capacity() (foreign int64) {
	for i := range q {
		f := q[i].Facts()
		if !f.Foreign {
			return f.Capacity
		}
		if i == 0 {
			foreign = f.Capacity
		}
	}
	return foreign
}

// Weights returns the weights of the entries as a claim of a capacity counts them. A stranger weighs the whole capacity.
func (q Queue[E]) Weights(capacity int64) []int64 {
	list := make([]int64, len(q))
	for i := range q {
		f := q[i].Facts()
		if list[i] = f.Weight; f.Foreign || f.Capacity != capacity {
			list[i] = capacity
		}
	}
	return list
}

// Holding returns how many entries at the head hold.
func (q Queue[E]) Holding() int {
	capacity := q.Capacity()
	return driver.Holding(capacity, q.Weights(capacity))
}

// fits reports whether a claim would hold at the tail.
func (q Queue[E]) fits(c *driver.Claim) bool {
	return driver.Holding(c.Capacity, append(q.Weights(c.Capacity), c.Weight)) > len(q)
}

// Find returns the index of a claim, or -1.
func (q Queue[E]) Find(id string) int {
	return slices.IndexFunc(q, func(e E) bool { f := e.Facts(); return f.ID == id && !f.Foreign })
}

// Earlier returns the claims of earlier runs of a claim's job, which leave when the claim enters. It leaves out this run's
// own claims and kept claims: a kept claim keeps everybody out, including the next run.
func (q Queue[E]) Earlier(c *driver.Claim) (earlier Queue[E]) {
	for _, e := range q {
		if f := e.Facts(); reclaims(c, &f) {
			earlier = append(earlier, e)
		}
	}
	return earlier
}

func reclaims(c *driver.Claim, f *Facts) bool {
	return c.Reclaim && c.Owner != "" && f.Owner == c.Owner && f.Client != c.Client && !f.Left && !f.Foreign
}

// Without returns the queue without the claims of earlier runs.
func (q Queue[E]) Without(c *driver.Claim) Queue[E] {
	return slices.DeleteFunc(slices.Clone(q), func(e E) bool { f := e.Facts(); return reclaims(c, &f) })
}

// Admit decides whether a new claim may enter. It returns nil if so. For a try that would have to wait, it returns the place
// that the try would have.
func (q Queue[E]) Admit(c *driver.Claim) (*driver.Place, error) {
	rest := q.Without(c)
	if err := rest.refuses(c); err != nil {
		return nil, err
	}
	if c.Try && !rest.fits(c) {
		p := q.Place(len(q))
		return &p, nil
	}
	return nil, nil
}

// Another returns a different capacity in the queue, or 0. Foreign entries have none.
func (q Queue[E]) Another(capacity int64) int64 {
	for i := range q {
		if f := q[i].Facts(); !f.Foreign && f.Capacity != capacity {
			return f.Capacity
		}
	}
	return 0
}

// refuses returns an error if the queue has another capacity than a new claim.
func (q Queue[E]) refuses(c *driver.Claim) error {
	if have := q.Capacity(); have != 0 && have != c.Capacity {
		return &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	return nil
}

// A Verdict is the fate of a claim in the queue.
type Verdict int

const (
	// Waits: the claim stays and waits.
	Waits Verdict = iota
	// Holds: the claim holds.
	Holds
	// Evicts: the claim stays, and claims of earlier runs ahead of it must be removed first.
	Evicts
	// Refused: the claim must leave, since the claims ahead of it have another capacity.
	Refused
	// TooLate: the claim must leave, since it is a try and would have to wait.
	TooLate
)

// Judge decides about the claim at an index. A claim with a ticket was let in before. Only Refused comes with an error.
func (q Queue[E]) Judge(c *driver.Claim, at int) (Verdict, error) {
	ahead, holds := q[:at], at < q.Holding()
	if c.Ticket == 0 {
		if err := ahead.Without(c).refuses(c); err != nil {
			return Refused, err
		}
		if len(ahead.Earlier(c)) > 0 {
			return Evicts, nil
		}
	}
	switch {
	case holds:
		return Holds, nil
	case c.Ticket == 0 && c.Try:
		return TooLate, nil
	}
	return Waits, nil
}

// Place returns the place of entry i. One past the tail, it is the place of a claim that enters there.
func (q Queue[E]) Place(i int) driver.Place {
	p := driver.Place{Ahead: i}
	if i < len(q) {
		p.Ticket, p.Holds = q[i].Facts().Ticket, i < q.Holding()
	}
	if !p.Holds && i > 0 {
		p.Blocker = q.Standing(0)
	}
	return p
}

// Standing returns entry i as an observer sees it.
func (q Queue[E]) Standing(i int) driver.ClaimInfo { return q.standing(i, q.Holding()) }

func (q Queue[E]) standing(i, holding int) driver.ClaimInfo {
	f := q[i].Facts()
	s := driver.ClaimInfo{Ticket: f.Ticket, Weight: f.Weight, Holds: i < holding, Left: f.Left, Record: f.Record}
	if f.Foreign {
		s.Weight = q.Capacity()
	}
	if !f.Since.IsZero() {
		s.Since = max(0, time.Since(f.Since))
	}
	return s
}

// Standings returns all entries as an observer sees them.
func (q Queue[E]) Standings() []driver.ClaimInfo {
	list, holding := make([]driver.ClaimInfo, len(q)), q.Holding()
	for i := range q {
		list[i] = q.standing(i, holding)
	}
	return list
}

// Watches returns the indexes of the entries that a waiting claim watches: the claim cannot hold before one of them leaves
// or weighs less. They are few, usually one, and as near to the claim as possible: entries near the head leave first, and
// would wake the claim in vain. A claim that holds watches none.
func (q Queue[E]) Watches(own int) (watched []int) {
	if own < q.Holding() {
		return nil
	}
	f := q[own].Facts()
	needed := f.Capacity - f.Weight + 1 // by its own capacity: the head may have another
	weights := q[:own].Weights(f.Capacity)
	for i, w := range slices.Backward(weights) {
		if w >= needed {
			return []int{i}
		}
	}
	for i, w := range slices.Backward(weights) {
		if needed <= 0 {
			break
		}
		watched = append(watched, i)
		needed -= w
	}
	return watched
}
