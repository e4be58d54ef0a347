package consul

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// settle tells where a claim stands in a queue, and takes the guard for an exclusive one whose turn it is. A claim that
// may not stay is taken out.
func (d *Driver) settle(ctx context.Context, c *driver.Claim, st *stake, q *queue) (driver.Place, error) {
	d.bury(ctx, q)
	for range rounds {
		// A claim that knows its ticket was let in: then it is the other that is about to go.
		if have := q.other(c.Capacity); have != 0 && c.Ticket == 0 {
			return driver.Place{}, d.withdraw(ctx, c, st, q, &driver.CapacityError{Have: have, Want: c.Capacity})
		}
		if q.foreign && exclusive(c) {
			return driver.Place{}, d.withdraw(ctx, c, st, q, alien(q))
		}
		peers := q.peers(c.Capacity)
		i := slices.IndexFunc(peers.entries, func(e *entry) bool { return e.Key == st.key })
		if i < 0 || peers.entries[i].Session != st.session.id {
			d.finish(st, claimLost)
			return driver.Place{}, driver.ErrGone
		}
		fits, guarded := i < peers.holding(), q.has(st.session.id)
		d.mu.Lock()
		held := st.state == claimHolding
		d.mu.Unlock()
		switch {
		case fits && (guarded || !exclusive(c) && (held || !q.leftover())):
			return d.granted(st, peers, i)
		case c.Try && !fits:
			return outside(q.without(st.session.id)), d.withdraw(ctx, c, st, q, nil)
		case !fits:
			if guarded { // taken before it was known that others stand ahead
				if _, _, err := d.change(ctx, st, returnGuard(st, q, peers.entries[i-1])); err != nil {
					return driver.Place{}, err
				}
			}
			return d.waits(st, peers, i, 0)
		}
		takes := seize(q, st)
		if !exclusive(c) {
			// What is left of the guard may be in its lock-delay, which is over when it can be had.
			takes = append(takes, op{Verb: remove, Key: q.guard.Key, about: guard})
		}
		if takes == nil {
			if c.Try {
				return outside(q.without(st.session.id)), d.withdraw(ctx, c, st, q, nil)
			}
			return d.waits(st, peers, i, 0)
		}
		found, bad, err := d.try(ctx, c, st, slices.Concat(d.check(st), takes))
		switch {
		case err != nil:
			return driver.Place{}, err
		case found != nil:
			q = found
			continue
		case bad.delayed() && c.Try:
			return outside(q.without(st.session.id)), d.withdraw(ctx, c, st, q, nil)
		case bad.delayed():
			return d.waits(st, peers, i, delayRetry)
		}
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, err
		}
	}
	return driver.Place{}, driver.Unreachable(fmt.Errorf("the queue changed %d times while a claim took its turn", rounds))
}

// returnGuard returns the operations that give the guard back which a claim has that is behind another. They do nothing once
// the one before it has gone: then the claim may hold by the guard, and the request may come that late.
func returnGuard(st *stake, q *queue, before *entry) []op {
	return []op{
		{Verb: same, Key: before.Key, Index: before.ModifyIndex},
		{Verb: locked, Key: q.guard.Key, Session: st.session.id, about: guard},
		{Verb: remove, Key: q.guard.Key, about: guard},
	}
}

// bury removes claims whose session is over. It does not matter if that fails: they count for nothing.
func (d *Driver) bury(ctx context.Context, q *queue) {
	var ops []op
	for _, p := range q.dead[:min(len(q.dead), maxReclaim)] {
		ops = append(ops, op{Verb: same, Key: p.Key, Index: p.ModifyIndex}, op{Verb: remove, Key: p.Key})
	}
	if len(ops) > 0 {
		_, _, _ = d.transact(ctx, ops)
	}
}

// granted is the place of a claim that holds.
func (d *Driver) granted(st *stake, peers *queue, i int) (driver.Place, error) {
	e := peers.entries[i]
	d.mu.Lock()
	defer d.mu.Unlock()
	if !st.become(claimHolding) {
		return driver.Place{}, driver.ErrGone // it left while this Enter was under way
	}
	if st.watch == nil && d.endangered != nil && d.known[st.id] == st {
		index := e.ModifyIndex
		st.watch = time.AfterFunc(watchAfter, func() { d.watchOver(st, index) })
	}
	return driver.Place{Ticket: e.ticket(), Holds: true, Ahead: i, TTL: max(1, st.session.left())}, nil
}

// waits is the place of a claim that waits.
func (d *Driver) waits(st *stake, peers *queue, i int, retry time.Duration) (driver.Place, error) {
	e := peers.entries[i]
	p := driver.Place{Ticket: e.ticket(), Ahead: i, Retry: retry}
	switch {
	case i > 0:
		p.Blocker = peers.standing(0)
	case peers.barred():
		p.Ahead, p.Blocker = 1, driver.Standing{Ticket: int64(peers.guard.CreateIndex), Weight: driver.All, Holds: true} //nolint:gosec // as tickets
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.TTL = max(1, st.session.left())
	if !st.become(claimWaiting) {
		return driver.Place{}, driver.ErrGone
	}
	st.wait = peers.before(i)
	return p, nil
}

// before returns what has to change before entry i of a queue of peers can hold: mostly the one key before it, so that
// a lock that is handed on wakes one client.
func (q *queue) before(i int) *target {
	me := q.entries[i]
	if i == 0 {
		if q.barred() {
			return &target{key: q.guard.Key, index: q.guard.ModifyIndex}
		}
		return nil
	}
	if me.exclusive() {
		return &target{key: q.entries[i-1].Key, index: q.entries[i-1].ModifyIndex}
	}
	if me.Capacity == driver.All { // one that shares waits for the last before it that does not
		for _, e := range slices.Backward(q.entries[:i]) {
			if e.Weight == driver.All {
				return &target{key: e.Key, index: e.ModifyIndex}
			}
		}
	}
	t := &target{key: q.folder, recurse: true}
	for _, e := range q.entries {
		t.index = max(t.index, e.ModifyIndex)
	}
	return t
}

// outside is the place of a try that did not enter.
func outside(q *queue) driver.Place {
	n, barred := len(q.entries), q.barred()
	switch {
	case n > 0:
		return driver.Place{Ahead: n, Blocker: q.standing(0)}
	case barred:
		return driver.Place{Ahead: 1, Blocker: driver.Standing{Ticket: int64(q.guard.CreateIndex), Weight: driver.All, Holds: true}} //nolint:gosec // as tickets
	}
	return driver.Place{}
}

// withdraw takes a claim out that entered and may not stay, and returns why.
func (d *Driver) withdraw(ctx context.Context, c *driver.Claim, st *stake, q *queue, why error) error {
	err := d.leave(ctx, c, st, q)
	if err != nil {
		return driver.Unknown(err)
	}
	return why
}

// alien explains what is in the place of the guard.
func alien(q *queue) error {
	if q.guard != nil && q.guard.Flags != semaphoreFlags {
		return fmt.Errorf("%w: the key %s", driver.ErrForeign, q.guard.Key)
	}
	return fmt.Errorf("%w: a semaphore of Consul's own (consul lock -n) is at %s", driver.ErrForeign, q.folder)
}
