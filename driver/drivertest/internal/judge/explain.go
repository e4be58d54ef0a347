package judge

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A judge reads the calls on one name in the order in which they began and ended, and keeps all queues that the name may
// have at each moment. A call of unknown outcome stays on its way for ever: it may change the queue at any time, once, or
// never.
//
// Time stands still for the queues. A lease runs out by a step of its own: a call that is on its way from the moment when
// the lease may end.
type judge struct {
	possible []*possibility
	going    [slots]*Call       // calls on their way
	unknown  [4]uint64          // the steps of calls of unknown outcome
	steps    int                // tried so far
	told     map[string][]int64 // all tickets that the store ever returned for a claim
	lapses   []*Call            // the steps by which leases may run out
}

// mostSteps is how many steps a judge takes before it gives up a case with too many possibilities.
const mostSteps = 200_000

// explain finds an order of the calls that explains all their answers. If there is none, it returns the first call whose
// answer no order explains, and the queues that were possible before that.
func explain(calls []*Call) (*Call, []*possibility) {
	j := &judge{possible: []*possibility{{}}, told: map[string][]int64{}}
	for _, c := range calls {
		j.learn(c)
	}
	for _, m := range moments(calls) {
		slot := slices.Index(j.going[:], m.call)
		switch {
		case m.begins && !j.begin(m.call):
			return nil, nil // too many are on their way
		case m.begins:
			continue
		case m.call.Verb == "expire":
			j.withdraw(slot)
			continue
		}
		before := j.possible
		j.possible = j.until(slot)
		if j.steps > mostSteps {
			break
		}
		if len(j.possible) == 0 {
			return m.call, before
		}
		j.going[slot] = nil
	}
	return nil, nil
}

// begin puts a call on its way, and reports false if there are too many of them.
func (j *judge) begin(c *Call) bool {
	slot := slices.Index(j.going[:], nil)
	if slot < 0 {
		return false
	}
	j.going[slot] = c
	if !c.Answered() {
		j.unknown[slot/32] |= 3 << (slot % 32 * 2)
	}
	return true
}

// withdraw removes a step that is done, or that will never be done.
func (j *judge) withdraw(slot int) {
	j.going[slot] = nil
	j.unknown[slot/32] &^= 3 << (slot % 32 * 2)
	left := seenSet{}
	for _, p := range j.possible {
		left.add(p.with(slot, stepNone), &j.unknown)
	}
	j.possible = left.all()
}

// A moment is the begin of a call, or its end.
type moment struct {
	at     int64
	begins bool
	call   *Call
}

// A said has, for each claim, when its last answered Enter began.
type said map[string]time.Duration

// since returns from when on the answer to a call may be true. The calls come in the order in which they began. An Await may
// return a notification that came before its call, but not one from before its claim's last Enter.
func (s said) since(c *Call) time.Duration {
	if c.Verb == "enter" && c.Answered() {
		s[c.Claim.ID] = c.Began
	}
	if from, ok := s[c.Claim.ID]; ok && c.Verb == "await" {
		return from
	}
	return c.Began
}

// moments returns when the calls that matter began, and when the calls of known outcome ended.
func moments(calls []*Call) []moment {
	var (
		all  []moment
		said = said{}
	)
	for _, c := range calls {
		began := said.since(c)
		if !c.matters() {
			continue
		}
		all = append(all, moment{int64(began), true, c})
		if c.Answered() {
			all = append(all, moment{int64(c.Ended), false, c})
		}
		if c.until > 0 {
			all = append(all, moment{int64(c.until), false, c})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int {
		if a.at == b.at && a.begins != b.begins { // a call that begins when another ends may have met it
			return map[bool]int{true: -1, false: 1}[a.begins]
		}
		return cmp.Compare(a.at, b.at)
	})
	return all
}

func (j *judge) learn(c *Call) {
	if c.Verb == "expire" {
		j.lapses = append(j.lapses, c)
	}
	tell := func(record string, ticket int64) {
		if ticket != 0 && !slices.Contains(j.told[record], ticket) {
			j.told[record] = append(j.told[record], ticket)
		}
	}
	if c.Err == nil {
		tell(c.Claim.Record, c.Place.Ticket)
		for _, l := range c.List {
			tell(l.Record, l.Ticket)
		}
	}
}

// until returns the possibilities in which a call is done, after any other calls on their way.
func (j *judge) until(slot int) []*possibility {
	var (
		ends, seen = seenSet{}, seenSet{}
		next       = slices.Clone(j.possible)
	)
	for len(next) > 0 && j.steps <= mostSteps {
		p := next[len(next)-1]
		next = next[:len(next)-1]
		j.steps++
		if p.step(slot) == stepDone {
			ends.add(p.with(slot, stepNone), &j.unknown) // the slot is free for another call
			continue
		}
		if !seen.add(p, &j.unknown) {
			continue
		}
		for other, c := range j.going {
			if c != nil && p.step(other) != stepDone && !j.waits(p, other) {
				next = append(next, j.after(p, other, c)...)
			}
		}
	}
	return ends.all()
}

// waits reports whether a call of unknown outcome has an identical one that may be done first just as well.
func (j *judge) waits(p *possibility, slot int) bool {
	c := j.going[slot]
	for other, twin := range j.going[:slot] {
		if twin != nil && p.step(other) == stepNone && !c.Answered() && !twin.Answered() && twin.Verb == c.Verb &&
			twin.Claim.ID == c.Claim.ID && twin.Keep == c.Keep && (c.Verb != "break" || twin.Claim.Ticket == c.Claim.Ticket) {
			return true
		}
	}
	return false
}

// after returns the possibilities that follow when the next step of a call is done; none if its answer differs.
func (j *judge) after(p *possibility, slot int, c *Call) []*possibility {
	i := find(&p.queue, c.Claim.ID)
	if i < 0 || !j.takesOut(c, p.queue.Entries[i].Ticket) {
		return j.does(p, i, slot, c)
	}
	q := p.changing(slot, stepDone)
	q.queue.Entries = slices.Delete(q.queue.Entries, i, i+1)
	if p.queue.Entries[i].Left || !c.Answered() && c.Keep > 0 { // it is kept for a while, or a Leave by its id keeps it
		return append(j.does(p, i, slot, c), q)
	}
	return []*possibility{q}
}

// does returns the possibilities that follow when a call is applied to the claim with its id, at this index of the queue; -1
// if it is not there.
func (j *judge) does(p *possibility, i, slot int, c *Call) []*possibility {
	switch c.Verb {
	case "enter":
		return j.entered(p, i, slot, c)
	case "leave":
		switch {
		case (i < 0 || p.queue.Entries[i].Left) && c.Err == nil && j.unheard("leave", c):
			return []*possibility{p.with(slot, stepDone)}
		case i < 0 && !errors.Is(c.Err, driver.ErrGone):
			return nil
		}
		q := p.changing(slot, stepDone)
		err := q.queue.Leave(0, &driver.Release{Claim: &c.Claim, Keep: c.Keep})
		if err == nil && errors.Is(c.Err, driver.ErrGone) && c.Claim.Ticket == 0 {
			return []*possibility{q} // its client never learned that it entered, and may report that it removed the rest
		}
		switch {
		case c.Answered() && !same(c.Err, err) || !c.Answered() && err != nil:
			return nil
		case err != nil:
			return []*possibility{p.with(slot, stepDone)}
		}
		return []*possibility{q}
	case "expire":
		if i < 0 || p.queue.Entries[i].Left != (c.Keep > 0) {
			return nil
		}
		q := p.aging(slot, stepDone)
		q.queue.Entries = slices.Delete(q.queue.Entries, i, i+1)
		return []*possibility{q}
	case "break":
		if c.Answered() && errors.Is(c.Err, driver.ErrGone) {
			if !j.mayShow(p, c, c.misses) {
				return nil
			}
			return []*possibility{p.with(slot, stepDone)}
		}
		q := p.changing(slot, stepDone)
		was, err := q.queue.Break(0, c.Claim.Ticket)
		if err != nil || c.Answered() && !shows(&c.List[0], &was) {
			return nil
		}
		return []*possibility{q}
	}
	if c.Verb == "list" && j.mayShow(p, c, c.lists) || c.Verb != "list" && c.sees(&p.queue, i) {
		return []*possibility{p.with(slot, stepDone)}
	}
	return nil
}

// takesOut reports whether a call finds its claim gone because the claim in the queue with its id has another ticket. An
// Enter of unknown outcome put this other claim there late, and the driver removes it.
func (j *judge) takesOut(c *Call, ticket int64) bool {
	return (c.Verb == "enter" || c.Verb == "leave" || c.Verb == "renew") && c.Claim.Ticket != 0 && c.Claim.Ticket != ticket &&
		(!c.Answered() || errors.Is(c.Err, driver.ErrGone)) && j.unheard("enter", c)
}

// unheard reports whether another call on its claim, with a given verb, has an unknown outcome: then a driver that finds the
// claim gone may know why.
func (j *judge) unheard(verb string, c *Call) bool {
	return slices.ContainsFunc(j.going[:], func(other *Call) bool {
		return other != nil && other.Verb == verb && !other.Answered() && other.Claim.ID == c.Claim.ID
	})
}

// sees reports whether the answer to a call that only reads, or renews, is true of a queue in which its claim has an index.
func (c *Call) sees(q *driver.Queue, i int) bool {
	switch c.Verb {
	case "await":
		return i >= 0 && i < q.Holding() && (c.Place.Ticket == 0 || c.Place.Ticket == q.Entries[i].Ticket)
	case "renew":
		_, err := q.Look(0, &c.Claim)
		return same(c.Err, err)
	}
	return false
}

// entered does the next step of an Enter whose claim has this index in the queue; -1 if it is not there.
func (j *judge) entered(p *possibility, i, slot int, c *Call) []*possibility {
	switch {
	case !c.Answered() && (i >= 0 || c.Claim.Ticket != 0):
		return nil
	case i < 0 && errors.Is(c.Err, driver.ErrGone) && j.unheard("enter", c):
		return []*possibility{p.with(slot, stepDone)} // the other Enter let it in, and it is gone by now
	case !c.Answered():
		var all []*possibility
		for _, ticket := range append(j.told[c.Claim.Record], 0) {
			q := p.changing(slot, stepDone)
			place, err := q.queue.Enter(0, ticket, &c.Claim)
			if err == nil && place.Ticket != 0 && (ticket == 0 || place.Ticket == ticket) {
				all = append(all, q)
			}
		}
		return all
	case p.step(slot) == stepEntered:
		if i < 0 || !ahead(c, i) || c.Place.Holds != (i < p.queue.Holding()) {
			return nil
		}
		return []*possibility{p.with(slot, stepDone)}
	}
	q := p.changing(slot, stepDone)
	place, err := q.queue.Enter(0, c.Place.Ticket, &c.Claim)
	if !same(c.Err, err) || err == nil && place.Ticket != c.Place.Ticket {
		return nil
	}
	if c.Place.Ticket == 0 {
		return []*possibility{p.with(slot, stepDone)}
	}
	if p.step(slot) == stepDecided {
		return []*possibility{q}
	}
	all := []*possibility{q.with(slot, stepEntered)}
	if i < 0 && place.Ahead == c.Place.Ahead && place.Holds == c.Place.Holds && j.someMayBeOver(p, c) {
		all = append(all, p.with(slot, stepDecided))
	}
	return all
}

// ahead reports whether an Enter may return this number of claims ahead of its own. The number may include claims that have
// left: a driver counts the claims that it knows of, and reads no more than it needs.
func ahead(c *Call, i int) bool {
	return c.Place.Ahead == i || c.Place.Ahead > i && c.Claim.Ticket != 0 && !c.Place.Holds
}

// mayShow reports whether a call that takes no lock may have seen the queue of a possibility, by its answer. Such a call may
// read the clock later than an Enter that it does not see: it may miss claims whose lease has run out by then, although that
// Enter still counts them.
func (j *judge) mayShow(p *possibility, c *Call, tells func(q *driver.Queue) bool) bool {
	var ended []int // of its entries, from the last to the first
	for i := len(p.queue.Entries) - 1; i >= 0; i-- {
		if e := &p.queue.Entries[i]; j.mayBeOver(e, c) {
			ended = append(ended, i)
		}
	}
	for some := range 1 << min(len(ended), 8) {
		q := driver.Queue{Capacity: p.queue.Capacity, Entries: slices.Clone(p.queue.Entries)}
		for k, i := range ended {
			if some>>k&1 == 1 {
				q.Entries = slices.Delete(q.Entries, i, i+1)
			}
		}
		if tells(&q) {
			return true
		}
	}
	return false
}

// lists reports whether a listing shows this queue.
func (c *Call) lists(q *driver.Queue) bool {
	return slices.EqualFunc(c.List, q.List(0), func(a, b driver.ClaimInfo) bool { return shows(&a, &b) })
}

// misses reports whether a queue lacks the claim that a Break found gone.
func (c *Call) misses(q *driver.Queue) bool {
	_, err := q.Break(0, c.Claim.Ticket)
	return errors.Is(err, driver.ErrGone)
}

// someMayBeOver reports whether some lease in the queue may have run out while a call was on its way.
func (j *judge) someMayBeOver(p *possibility, during *Call) bool {
	return slices.ContainsFunc(p.queue.Entries, func(e driver.Entry) bool { return j.mayBeOver(&e, during) })
}

// mayBeOver reports whether the lease of an entry may have run out while a call was on its way.
func (j *judge) mayBeOver(e *driver.Entry, during *Call) bool {
	return slices.ContainsFunc(j.lapses, func(c *Call) bool {
		return c.Claim.ID == e.ID && c.Keep > 0 == e.Left && c.Began <= during.Ended && (c.until == 0 || c.until >= during.Began)
	})
}

func shows(a, b *driver.ClaimInfo) bool {
	return a.Ticket == b.Ticket && a.Record == b.Record && a.Weight == b.Weight && a.Holds == b.Holds && a.Left == b.Left
}

// same reports whether two errors say the same of a claim.
func same(got, want error) bool {
	if have, ok := errors.AsType[*driver.CapacityError](got); ok {
		need, is := errors.AsType[*driver.CapacityError](want)
		return is && *have == *need
	}
	return errors.Is(got, driver.ErrGone) == errors.Is(want, driver.ErrGone) && (got == nil) == (want == nil)
}

func find(q *driver.Queue, id string) int {
	return slices.IndexFunc(q.Entries, func(e driver.Entry) bool { return e.ID == id })
}
