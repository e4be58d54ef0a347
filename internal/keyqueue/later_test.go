package keyqueue

import (
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// The judgement of a store. An earlier version of stile has another one than this, and may stand in the same queue.
type judgement func(q Queue[entry], c *driver.Claim, at int) Verdict

// A store is one of the three, as far as it matters to the rule.
type store struct {
	name    string
	now     judgement
	before  judgement // as of 8c845d5c
	foreign []entry   // what clients of other libraries look like
	apart   bool      // a claim's key is made by one request, and the queue is read by another
}

var stores = []store{
	{name: "consul", now: nowConsul, before: beforeConsul},
	{name: "etcd", now: nowEtcd, before: beforeEtcd, foreign: []entry{{Foreign: true, Weight: driver.All, Capacity: driver.All}}},
	{name: "zookeeper", now: nowEtcd, before: beforeZooKeeper, foreign: []entry{{Weight: driver.All, Capacity: driver.All}}, apart: true},
}

func nowEtcd(q Queue[entry], c *driver.Claim, at int) Verdict {
	verdict, _ := q.Judge(c, at)
	return verdict
}

// nowConsul also sends a claim away that was not let in and stands before one of another capacity.
func nowConsul(q Queue[entry], c *driver.Claim, at int) Verdict {
	if c.Ticket == 0 && q[at+1:].Another(c.Capacity) != 0 {
		return Refused
	}
	return nowEtcd(q, c, at)
}

// beforeConsul passes over claims of another capacity, once it was let in where there was none.
func beforeConsul(q Queue[entry], c *driver.Claim, at int) Verdict {
	var weights []int64
	for i, e := range q {
		if e.Capacity == c.Capacity && i <= at {
			weights = append(weights, e.Weight)
		}
	}
	return verdictBefore(c, c.Ticket == 0 && q.Another(c.Capacity) != 0, driver.Holding(c.Capacity, weights) == len(weights))
}

// beforeEtcd counts claims of another capacity by their own weight. One that finds itself again is not refused.
func beforeEtcd(q Queue[entry], c *driver.Claim, at int) Verdict {
	capacity := driver.All
	if i := slices.IndexFunc(q, func(e entry) bool { return !e.Foreign }); i >= 0 {
		capacity = q[i].Capacity
	}
	var weights []int64
	for _, e := range q {
		if e.Foreign {
			e.Weight = capacity
		}
		weights = append(weights, e.Weight)
	}
	return verdictBefore(c, false, at < driver.Holding(capacity, weights))
}

// beforeZooKeeper has a claim of another capacity weigh more than any queue has.
func beforeZooKeeper(q Queue[entry], c *driver.Claim, at int) Verdict {
	var weights []int64
	for _, e := range q {
		if e.Capacity != q[0].Capacity {
			e.Weight = driver.All
		}
		weights = append(weights, e.Weight)
	}
	return verdictBefore(c, c.Ticket == 0 && q[0].Capacity != c.Capacity, at < driver.Holding(q[0].Capacity, weights))
}

func verdictBefore(c *driver.Claim, refused, holds bool) Verdict {
	switch {
	case refused:
		return Refused
	case holds:
		return Holds
	case c.Ticket == 0 && c.Try:
		return TooLate
	}
	return Waits
}

// TestNobodyHoldsEarlier looks at every queue of up to four entries: no claim holds that would have waited, or would have
// been refused, in 8c845d5c.
func TestNobodyHoldsEarlier(t *testing.T) {
	t.Parallel()
	kinds := []entry{
		{Weight: 1, Capacity: 2}, {Weight: 2, Capacity: 2}, {Weight: 1, Capacity: 3}, {Weight: 3, Capacity: 3},
		{Weight: 1, Capacity: driver.All}, {Weight: driver.All, Capacity: driver.All},
	}
	for _, s := range stores {
		later, looked := 0, 0
		var extend func(q Queue[entry])
		extend = func(q Queue[entry]) {
			for at, e := range q {
				for _, ticket := range []int64{0, int64(at + 1)} {
					c := &driver.Claim{Weight: e.Weight, Capacity: e.Capacity, Ticket: ticket}
					if e.Foreign {
						continue
					}
					looked++
					now, before := s.now(q, c, at), s.before(q, c, at)
					if now == Holds && before != Holds {
						t.Fatalf("%s: %+v at %d of %+v: %v; before: %v", s.name, c, at, q, now, before)
					}
					if now != Holds && before == Holds {
						later++
					}
				}
			}
			if len(q) == 4 {
				return
			}
			for _, e := range slices.Concat(kinds, s.foreign) {
				extend(append(slices.Clone(q), e))
			}
		}
		extend(nil)
		t.Logf("%s: %d judgements, %d of them later", s.name, looked, later)
		if (later == 0) != (s.name == "zookeeper") { // whose rule it was
			t.Errorf("%s: %d claims hold later", s.name, later)
		}
	}
}
