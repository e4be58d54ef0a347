package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// maxDelay is the longest lock-delay that Consul keeps.
	maxDelay = time.Minute

	// delayRetry is how often a claim at the head asks again while a lock-delay is in its way. Consul tells no end of it.
	delayRetry = 250 * time.Millisecond

	// rounds is how often a place is looked at again because others were quicker.
	rounds = 8

	// maxReclaim is how many claims of an earlier run one transaction removes.
	maxReclaim = 16
)

func exclusive(c *driver.Claim) bool { return c.Weight == driver.All && c.Capacity == driver.All }

// kindOf is what the session of a claim must be like.
func (d *Driver) kindOf(c *driver.Claim) kind {
	ttl := max(c.TTL, d.floor).Round(time.Millisecond)
	if ttl < c.TTL {
		ttl += time.Millisecond
	}
	return kind{ttl, c.Delay}
}

// Enter of a free lock is one transaction. Where the lock is taken, it is another.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	switch {
	case c.Delay > maxDelay:
		return driver.Place{}, driver.Refused(fmt.Errorf("the lock-delay is %v; consul keeps %v at most", c.Delay, maxDelay))
	case c.Delay > 0 && !exclusive(c):
		return driver.Place{}, fmt.Errorf("%w: consul keeps a lock-delay for exclusive claims alone", driver.ErrUnsupported)
	}
	st, q := d.stakeOf(c), (*queue)(nil)
	if st == nil && c.Ticket != 0 {
		var err error
		if st, q, err = d.adopt(ctx, c); err != nil {
			return driver.Place{}, err
		}
	}
	if st != nil {
		p, err := d.again(ctx, c, st, q)
		if !errors.Is(err, errAbsent) {
			return p, err
		}
	}
	return d.arrive(ctx, c)
}

// errAbsent says that a claim that did not know whether it entered is not in the store.
var errAbsent = errors.New("the claim did not enter")

// again finds a claim where it stands and starts its lease anew.
func (d *Driver) again(ctx context.Context, c *driver.Claim, st *stake, q *queue) (driver.Place, error) {
	// gone is for a claim that is not there. One that does not know whether it entered may enter anew, once no request of
	// its can arrive any more.
	gone := func(why error) (driver.Place, error) {
		if c.Ticket == 0 {
			if err := d.end(ctx, st.session); err != nil {
				return driver.Place{}, err
			}
			d.finish(st, claimLost)
			return driver.Place{}, errAbsent
		}
		now, q, err := d.elsewhere(ctx, c, st, why)
		if err != nil {
			return driver.Place{}, err
		}
		return d.settle(ctx, c, now, q)
	}
	d.mu.Lock()
	stale := st.session.left() < st.session.ttl*3/4
	called := st.state == claimCalled
	d.mu.Unlock()
	if stale {
		over, err := d.prolong(ctx, st.session)
		if err != nil {
			return driver.Place{}, err
		}
		if over {
			return gone(driver.ErrSession)
		}
	}
	var err error
	if called && q == nil && st.exclusive {
		// The way is free, most likely: take the guard without looking.
		q, _, err = d.try(ctx, c, st, slices.Concat(d.check(st), seize(nil, st)))
	}
	if err == nil && q == nil {
		q, err = d.look(ctx, c.Name)
	}
	if err != nil {
		return driver.Place{}, err
	}
	me := q.find(c.ID)
	switch {
	case me != nil && me.Left:
		d.finish(st, claimLost)
		return driver.Place{}, driver.ErrGone
	case me == nil:
		if over, err := d.prolong(ctx, st.session); err == nil && over {
			return gone(driver.ErrSession)
		}
		return gone(driver.ErrGone)
	case me.Session != st.session.id:
		return gone(driver.ErrGone)
	}
	return d.settle(ctx, c, st, q)
}

// arrive puts a claim at the tail of its queue.
func (d *Driver) arrive(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	var q *queue // nil means that nothing is known and the lock may well be free
	if c.Reclaim || c.Try && !exclusive(c) {
		var err error
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
	}
	text, err := d.valueOf(c)
	if err != nil {
		return driver.Place{}, driver.Refused(err)
	}
	for range rounds {
		if q != nil && q.find(c.ID) != nil {
			st, err := d.takeUp(ctx, c, q)
			if err != nil {
				return driver.Place{}, driver.Afterwards(err)
			}
			p, err := d.settle(ctx, c, st, q)
			return p, driver.Afterwards(err)
		}
		victims := earlier(c, q)
		if p, no, err := refuse(c, q, victims); no || err != nil {
			return p, err
		}
		s, err := d.take(ctx, d.kindOf(c))
		if err != nil {
			return driver.Place{}, err
		}
		st := d.keep(c, s, claimAsking)
		ops := []op{{Verb: lock, Key: st.key, Value: text, Flags: claimFlags, Session: s.id, about: own}}
		ops = append(evict(q, victims), ops...)
		var takes []op
		if exclusive(c) && (q == nil || len(q.entries) == len(victims)) {
			rest := q
			if q != nil && q.guard != nil && q.of(q.guard.Session) != nil { // the guard goes with the victims
				rest = nil
			}
			takes = seize(rest, st)
		}
		found, bad, err := d.try(ctx, c, st, slices.Concat(ops, takes))
		if err == nil && bad != nil && len(takes) > 0 && !c.Try && len(bad.about) == 1 && bad.about[guard] {
			found, bad, err = d.try(ctx, c, st, ops) // somebody has the lock: stand in the queue
		}
		switch {
		case err != nil:
			if driver.NotApplied(err) {
				d.finish(st, claimLeft) // nothing of it is in the store, and nothing is on its way
			}
			return driver.Place{}, err
		case found != nil:
			p, err := d.settle(ctx, c, st, found)
			return p, driver.Afterwards(err)
		}
		// Nothing was applied.
		end := claimLeft
		if bad.sessionless() {
			end = claimLost
		}
		d.finish(st, end)
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
		if c.Try && bad.delayed() {
			return driver.Place{Ahead: len(q.entries)}, nil
		}
	}
	return driver.Place{}, driver.Refused(driver.Unreachable(errors.New("other clients were quicker each time")))
}

// earlier returns the claims that an earlier run of the claim's job has in a queue, but for those that are kept.
func earlier(c *driver.Claim, q *queue) (list []*entry) {
	if q == nil || !c.Reclaim || c.Owner == "" {
		return nil
	}
	for _, e := range q.entries {
		if e.Owner == c.Owner && e.Client != c.Client && !e.Left && len(list) < maxReclaim {
			list = append(list, e)
		}
	}
	return list
}

// refuse tells whether a claim cannot enter a queue that is known, without the victims.
func refuse(c *driver.Claim, q *queue, victims []*entry) (p driver.Place, no bool, err error) {
	if q == nil {
		return p, false, nil
	}
	rest := &queue{folder: q.folder, guard: q.guard, foreign: q.foreign}
	for _, e := range q.entries {
		if !slices.Contains(victims, e) {
			rest.entries = append(rest.entries, e)
		}
	}
	if have := rest.other(c.Capacity); have != 0 {
		return p, true, &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	if q.foreign && exclusive(c) {
		return p, true, alien(q)
	}
	if !c.Try {
		return p, false, nil
	}
	free := c.Capacity
	for _, e := range rest.entries {
		free -= e.Weight
	}
	if free < c.Weight || exclusive(c) && q.barred() {
		return outside(q), true, nil
	}
	return p, false, nil
}

// change applies a transaction that changes what a claim has. All of them go this way: one whose answer was lost leaves the
// claim unsure, and with that its session serves no other claim.
func (d *Driver) change(ctx context.Context, st *stake, ops []op) ([]pair, *conflict, error) {
	pairs, bad, err := d.transact(ctx, ops)
	if err != nil && !driver.NotApplied(err) {
		d.move(st, claimUnsure)
	}
	return pairs, bad, err
}

// try is change that returns the queue after it.
func (d *Driver) try(ctx context.Context, c *driver.Claim, st *stake, ops []op) (*queue, *conflict, error) {
	pairs, bad, err := d.change(ctx, st, append(slices.Clip(ops), op{Verb: tree, Key: st.folder}))
	if err != nil || bad != nil {
		return nil, bad, err
	}
	return parse(c.Name, st.folder, pairs), nil, nil
}

// check is the operation that fails unless a claim is there.
func (d *Driver) check(st *stake) []op {
	return []op{{Verb: locked, Key: st.key, Session: st.session.id, about: own}}
}

// seize returns the operations that give the guard to the session of a claim at the head, if the guard is what the queue
// says; with no queue, if it is not there. There are none if a client of another kind has it.
func seize(q *queue, st *stake) []op {
	takes := lockGuard(st, st.session.id)
	switch {
	case q == nil || q.guard == nil:
		return []op{{Verb: missing, Key: takes.Key, about: guard}, takes}
	case q.guard.Flags != lockFlags:
		return nil
	case q.guard.Session == "":
		return []op{{Verb: same, Key: takes.Key, Index: q.guard.ModifyIndex, about: guard}, takes}
	case q.of(q.guard.Session) != nil:
		// A claim that is not at the head took it, since it did not know that. It does not hold by it.
		return []op{unlockGuard(q), takes}
	}
	return nil
}

func lockGuard(st *stake, session string) op {
	return op{Verb: lock, Key: st.folder + guardKey, Value: st.record, Flags: lockFlags, Session: session, about: guard}
}

func unlockGuard(q *queue) op {
	return op{Verb: unlock, Key: q.guard.Key, Flags: q.guard.Flags, Session: q.guard.Session, about: guard}
}

// evict returns the operations that remove claims, and the guard if one of them has it.
func evict(q *queue, victims []*entry) (ops []op) {
	for _, e := range victims {
		ops = append(ops, op{Verb: locked, Key: e.Key, Session: e.Session}, op{Verb: remove, Key: e.Key})
		if q.has(e.Session) {
			ops = append(ops, op{Verb: locked, Key: q.guard.Key, Session: e.Session}, op{Verb: remove, Key: q.guard.Key})
		}
	}
	return ops
}
