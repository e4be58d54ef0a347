package driver

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A verb is an operation on a queue.
type verb int

const (
	enters verb = iota
	tries
	enterAgain // with the ticket of an earlier entry
	renews
	leaves
	keeps
	breaks
	lightens // amends the weight to 1
	renames  // amends the record
	verbs
)

func (v verb) String() string {
	return [...]string{"enter", "try", "enter again", "renew", "leave", "keep", "break", "lighten", "rename"}[v]
}

const keepFor = 2 * time.Microsecond

// apply applies a verb to a queue, and returns the broken invariant of a lock, if any.
func apply(q *Queue, now, stamp int64, v verb, c Claim) (Place, error) {
	was := snapshot(q)
	q.Expire(now)
	q.Wake(now)
	if err := checkExpired(was, q, now); err != nil {
		return Place{}, fmt.Errorf("before %v: %w", v, err)
	}
	before := snapshot(q)
	p, answer := Place{}, error(nil)
	i := before.find(c.ID)
	stood := i >= 0 && now < before.Entries[i].Ends && !before.Entries[i].Left
	switch v {
	case enters, tries, enterAgain:
		c.Try = v == tries
		if v != enterAgain {
			c.Ticket = 0
		}
		p, answer = q.Enter(now, stamp, &c)
	case renews:
		p.TTL, answer = q.Renew(now, &c)
	case lightens, renames:
		c.Amend = amendment(v)
		p.TTL, answer = q.Renew(now, &c)
	case leaves:
		answer = q.Leave(now, &Release{Claim: &c})
	case keeps:
		answer = q.Leave(now, &Release{Claim: &c, Keep: keepFor})
	case breaks:
		var s ClaimInfo
		s, answer = q.Break(now, c.Ticket)
		p.Ticket = s.Ticket
	}
	q.Wake(now)
	if err := check(before, q, now, stamp, v, c, stood, p, answer); err != nil {
		return p, fmt.Errorf("%v of %s, ticket %d, %d of %d at %d = %+v, %w: %w\nbefore: %+v\nafter:  %+v", v, c.ID, c.Ticket, c.Weight, c.Capacity, now, p, answer, err, before, *q)
	}
	return p, nil
}

func amendment(v verb) *Amendment {
	if v == lightens {
		return &Amendment{Weight: 1}
	}
	return &Amendment{Record: "new"}
}

func snapshot(q *Queue) *Queue {
	return &Queue{Capacity: q.Capacity, Last: q.Last, Entries: slices.Clone(q.Entries)}
}

// ends returns when an entry ceases to count, by the words of the contract and not by the code under test.
func ends(e Entry) int64 {
	switch {
	case e.Left:
		return e.Ends
	case e.Notified:
		return e.Ends + e.Delay
	}
	return e.Ends
}

// checkExpired checks that time removes the expired claims only, and gives the lock to nobody too early.
func checkExpired(was, q *Queue, now int64) error {
	kept := was.Entries[:0:0]
	for _, e := range was.Entries {
		if ends(e) > now {
			kept = append(kept, e)
		}
	}
	return checkSame(kept, q.Entries, "", q.Holding())
}

// checkSame checks that two queues have the same claims in the same order, except the claim but. Notified may differ for
// claims that hold.
func checkSame(before, after []Entry, but string, holding int) error {
	other := func(e Entry) bool { return e.ID == but }
	for i, e := range after {
		if e.Notified && i >= holding && e.ID != but && !slices.Contains(before, e) {
			return fmt.Errorf("%s was told that it holds, and does not", e.ID)
		}
	}
	before, after = slices.DeleteFunc(slices.Clone(before), other), slices.DeleteFunc(slices.Clone(after), other)
	if len(before) != len(after) {
		return errors.New("I4: another claim came or went")
	}
	for i := range before {
		before[i].Notified = after[i].Notified || before[i].Notified
		if before[i] != after[i] {
			return fmt.Errorf("I4: another claim changed: %+v was %+v", after[i], before[i])
		}
	}
	return nil
}

func check(before, q *Queue, now, stamp int64, v verb, c Claim, stood bool, p Place, answer error) error {
	if err := checkQueue(q, now); err != nil {
		return err
	}
	if err := checkStability(before, q); err != nil {
		return err
	}
	if answer != nil {
		if err := checkSame(before.Entries, q.Entries, "", q.Holding()); err != nil || q.Last != before.Last {
			return fmt.Errorf("an error changed the queue: %w", err)
		}
		return checkError(before, v, c, stood, answer)
	}
	i := q.find(c.ID)
	switch v {
	case enters, tries, enterAgain:
		return checkEntered(before, q, now, stamp, c, stood, p, i)
	case renews:
		if !stood || i < 0 || p.TTL < before.remaining(c.ID, now) {
			return errors.New("I5: a renewal put a claim back, or made its lease shorter")
		}
	case lightens, renames:
		if err := checkAmended(before, q, c, stood, p, now); err != nil {
			return err
		}
	case leaves, keeps:
		kept := v == keeps && before.find(c.ID) < before.Holding()
		if !stood || kept != (i >= 0) {
			return errors.New("I6: a claim that left is there, or one that is kept is not")
		}
		if kept && (!q.Entries[i].Left || q.Entries[i].Ends != now+micros(keepFor)) {
			return errors.New("a claim that is kept ends at another time")
		}
	case breaks:
		if len(q.Entries) != len(before.Entries)-1 || c.Ticket == 0 && p.Ticket != before.Entries[0].Ticket || c.Ticket != 0 && p.Ticket != c.Ticket {
			return errors.New("another claim was broken")
		}
		broken := slices.IndexFunc(before.Entries, func(e Entry) bool { return e.Ticket == p.Ticket })
		return checkSame(before.Entries, q.Entries, before.Entries[broken].ID, q.Holding())
	}
	return checkSame(before.Entries, q.Entries, c.ID, q.Holding())
}

// checkAmended checks that an amendment changed only the requested field, in place.
func checkAmended(before, q *Queue, c Claim, stood bool, p Place, now int64) error {
	i := before.find(c.ID)
	if !stood || i >= before.Holding() || q.find(c.ID) != i || p.TTL < before.remaining(c.ID, now) {
		return errors.New("I5: a claim that waits was amended, put back, moved, or has a shorter lease")
	}
	was, is := before.Entries[i], q.Entries[i]
	switch {
	case c.Amend.Weight != 0 && (is.Weight != min(was.Weight, c.Amend.Weight) || is.Record != was.Record):
		return fmt.Errorf("a claim of weight %d that was lightened is %+v", was.Weight, is)
	case c.Amend.Record != "" && (is.Record != c.Amend.Record || is.Weight != was.Weight):
		return fmt.Errorf("a claim of weight %d with another record is %+v", was.Weight, is)
	}
	return nil
}

// checkQueue checks the invariants of one queue.
func checkQueue(q *Queue, now int64) error {
	var sum, last int64
	holding := q.Holding()
	next, some := q.Next()
	for i, e := range q.Entries {
		sum += e.Weight
		if holds := sum <= q.Capacity; holds != (i < holding) {
			return fmt.Errorf("I1: claim %d holds: %v, with weights of %d up to it and capacity %d", i, !holds, sum, q.Capacity)
		}
		if i < holding && !e.Notified {
			return fmt.Errorf("claim %d holds and was not told", i)
		}
		if e.Ticket <= last || e.Ticket > q.Last {
			return fmt.Errorf("I3: ticket %d after %d, of which %d is the last", e.Ticket, last, q.Last)
		}
		if last = e.Ticket; q.find(e.ID) != i {
			return fmt.Errorf("I4: %s is in the queue twice", e.ID)
		}
		if !some || next > ends(e) || next <= now {
			return fmt.Errorf("next expiry at %d, and %s goes at %d", next, e.ID, ends(e))
		}
	}
	if list := q.List(now); len(list) != len(q.Entries) {
		return fmt.Errorf("%d claims are listed of %d", len(list), len(q.Entries))
	}
	return nil
}

// checkStability checks that every holder still holds, and that a new claim stands at the tail.
func checkStability(before, q *Queue) error {
	if q.Last < before.Last {
		return errors.New("I3: the last ticket was forgotten")
	}
	held, holding := before.Holding(), q.Holding()
	for i, e := range q.Entries {
		was := before.find(e.ID)
		switch {
		case was < 0 && (i != len(q.Entries)-1 || e.Ticket <= before.Last):
			return errors.New("I2: a claim entered elsewhere than at the tail")
		case was >= 0 && was < held && i >= holding:
			return fmt.Errorf("I2: %s no longer holds", e.ID)
		case was >= 0 && e.Ticket != before.Entries[was].Ticket:
			return fmt.Errorf("I3: the ticket of %s changed", e.ID)
		}
	}
	return nil
}

func checkError(before *Queue, v verb, c Claim, stood bool, answer error) error {
	capacity, ok := errors.AsType[*CapacityError](answer)
	i := before.find(c.ID)
	if v == lightens || v == renames {
		holds := stood && i < before.Holding()
		switch other, ok := errors.AsType[*RecordError](answer); {
		case ok && v == renames && holds && other.Have == before.Entries[i].Record && other.Have != c.Record:
			return nil
		case !ok && OutcomeOf(answer) == OutcomeRefused && !holds && stood != errors.Is(answer, ErrGone):
			return nil
		}
		return errors.New("the amendment has no reason to fail")
	}
	rest := slices.ContainsFunc(before.Entries, func(e Entry) bool { return !c.reclaims(e) })
	switch {
	case ok && (v == enters || v == tries) && !stood && rest && *capacity == CapacityError{before.Capacity, c.Capacity} && c.Capacity != before.Capacity:
		return nil
	case errors.Is(answer, ErrGone) && (v == enterAgain || v == renews || v == leaves || v == keeps) && !stood:
		return nil
	case errors.Is(answer, ErrGone) && (v == enters || v == tries) && !stood && before.find(c.ID) >= 0:
		return nil // in its lock-delay, or kept
	case errors.Is(answer, ErrGone) && v == breaks:
		if slices.ContainsFunc(before.Entries, func(e Entry) bool { return c.Ticket == 0 || c.Ticket == e.Ticket }) {
			return errors.New("the claim is there")
		}
		return nil
	}
	return errors.New("this error has no cause")
}

func checkEntered(before, q *Queue, now, stamp int64, c Claim, stood bool, p Place, i int) error {
	if i < 0 {
		if !c.Try || p.Holds || p.Ticket != 0 || p.TTL != 0 || p.Ahead != len(before.Entries) {
			return errors.New("a claim did not enter, and the place does not say so")
		}
		if before.fits(c.Weight) {
			return errors.New("a try that fits did not enter")
		}
		return checkSame(before.Entries, q.Entries, "", q.Holding())
	}
	e := q.Entries[i]
	switch {
	case c.Ticket != 0 && !stood:
		return errors.New("I5: a claim came back")
	case p.Ticket != e.Ticket || p.Ahead != i || p.Holds != (i < q.Holding()):
		return fmt.Errorf("the place is not that of %+v", e)
	case c.Try && !stood && !p.Holds:
		return errors.New("a try entered and waits")
	case !stood && (e.Ticket != max(before.Last+1, stamp) || e.Weight != c.Weight || e.Since != now || q.Capacity != c.Capacity):
		return errors.New("the claim entered as another one")
	case p.TTL != time.Duration(e.Ends-now)*time.Microsecond || p.TTL < before.remaining(c.ID, now):
		return errors.New("the confirmed lease is not the claim's, or is shorter than it was")
	case !p.Holds && p.Blocker.Ticket != q.Entries[0].Ticket:
		return errors.New("a claim that waits is not told what for")
	case !p.Holds && (p.Retry <= 0 || p.Retry != noticed(q, i)-time.Duration(now)*time.Microsecond):
		return fmt.Errorf("a claim that waits is to ask again in %v, which is not when what it has to notice may run out", p.Retry)
	}
	others := before.Entries
	if !stood {
		others = slices.DeleteFunc(slices.Clone(others), c.reclaims)
	}
	return checkSame(others, q.Entries, c.ID, q.Holding())
}

// reclaims reports whether the entry belongs to an earlier run of the claim's job.
func (c *Claim) reclaims(e Entry) bool {
	return c.Reclaim && c.Owner != "" && e.Owner == c.Owner && e.Client != c.Client
}

// noticed returns when the claim may run out that waiting entry i has to notice: the waiting claim before it, or, without
// one, any holder.
func noticed(q *Queue, i int) time.Duration {
	first := ends(q.Entries[i-1])
	for _, e := range q.Entries[:i] {
		if q.Holding() == i {
			first = min(first, ends(e))
		}
	}
	return time.Duration(first) * time.Microsecond
}

// remaining returns the lease that a claim has left, or 0.
func (q *Queue) remaining(id string, now int64) time.Duration {
	if i := q.find(id); i >= 0 {
		return time.Duration(q.Entries[i].Ends-now) * time.Microsecond
	}
	return 0
}
