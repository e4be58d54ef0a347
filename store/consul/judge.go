package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
)

// A spot is where a claim stands in its queue.
type spot struct {
	q      *queue
	at     int
	fits   bool // it holds by the rule
	hasKey bool // its session has the lock's key
}

// spotOf returns where a claim stands in a queue, or nil.
func (q *queue) spotOf(lc *localClaim) *spot {
	for i, e := range q.entries {
		if e.Key == lc.key && e.Session == lc.session.id {
			return &spot{q, i, i < q.entries.Holding(), q.has(lc.session.id)}
		}
	}
	return nil
}

// entry returns the claim as it stands in the store.
func (s *spot) entry() *entry { return s.q.entries[s.at] }

// judge is the last step of Enter: it tells where a claim stands in a queue, and takes the lock's key for an exclusive
// one whose turn it is. A claim that may not stay is taken out.
func (d *Driver) judge(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue) (driver.Place, error) {
	d.deleteDead(ctx, q)
	q, err := d.evictEarlier(ctx, c, lc, q)
	if err != nil {
		return driver.Place{}, err
	}
	for range rounds {
		s := q.spotOf(lc)
		if s == nil {
			d.finish(lc, claimLost)
			return driver.Place{}, driver.ErrGone
		}
		if why := unwelcome(c, s); why != nil {
			return driver.Place{}, d.withdraw(ctx, c, lc, q, why)
		}
		switch {
		case d.holds(lc, s):
			return d.granted(lc, s)
		case !s.fits:
			return d.later(ctx, c, lc, s, 0)
		}
		takes := turn(lc, s)
		if takes == nil { // a client of another kind has the lock
			return d.later(ctx, c, lc, s, 0)
		}
		next, bad, err := d.try(ctx, lc, slices.Concat(d.check(lc), takes))
		switch {
		case err != nil:
			return driver.Place{}, err
		case bad == nil:
			q = next // which shows the lock's key with the claim, or free of the lock-delay
			continue
		case bad.delayed():
			return d.later(ctx, c, lc, s, delayRetry)
		}
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, err
		}
	}
	err = fmt.Errorf("the queue changed %d times while a claim took its turn", rounds)
	return driver.Place{}, driver.Unreachable(err)
}

// evictEarlier removes what earlier runs of a claim's job have before it, and returns the queue after that. They may have
// come between precheck and apply, or be more than one transaction removes. Nobody comes in before a claim that stands in
// its queue, so a claim that knows its ticket has none to remove.
func (d *Driver) evictEarlier(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue) (*queue, error) {
	for conflicts := 0; conflicts < rounds; {
		at := q.entries.Find(driver.EncodeName(c.ID))
		if at < 0 {
			return q, nil
		}
		if verdict, _ := q.entries.Judge(c, at); verdict != keyqueue.Evicts {
			return q, nil
		}
		earlier := q.entries[:at].Earlier(c)
		ops := slices.Concat(d.check(lc), evict(q, earlier[:min(len(earlier), maxReclaim)]))
		next, bad, err := d.try(ctx, lc, ops)
		if err == nil && bad != nil {
			conflicts++
			next, err = d.look(ctx, c.Name)
		}
		if err != nil {
			return nil, err
		}
		q = next
	}
	return nil, driver.Unreachable(errors.New("the queue changed each time while a claim removed those of an earlier run"))
}

// unwelcome returns why a claim that has entered cannot stay, or nil. One that does not know its ticket may find claims of
// another capacity behind it, since the answer to its request was lost: if there are such, it goes too.
func unwelcome(c *driver.Claim, s *spot) error {
	if verdict, why := s.q.entries.Judge(c, s.at); verdict == keyqueue.Refused {
		return why
	}
	if have := s.q.entries[s.at+1:].Another(c.Capacity); c.Ticket == 0 && have != 0 {
		return &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	if s.q.foreign && exclusive(c) {
		return s.q.foreignKey()
	}
	return nil
}

// holds reports whether a claim holds with what it has. An exclusive one needs the lock's key. One that shares does
// not, but what is left of the lock's key may be in its lock-delay: then only the claims that held before that go on
// holding.
func (d *Driver) holds(lc *localClaim, s *spot) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.fits && (s.hasKey || !s.entry().exclusive() && (lc.state == claimHolding || !s.q.leftover()))
}

// turn returns the operations by which a claim takes its turn. One that shares takes away what is left of the lock's
// key, which can be had when its lock-delay is over.
func turn(lc *localClaim, s *spot) []op {
	takes := takeLockKey(s.q, lc)
	if !s.entry().exclusive() {
		takes = append(takes, op{Verb: remove, Key: s.q.lockKey.Key, about: lockKey})
	}
	return takes
}

// granted is the place of a claim that holds.
func (d *Driver) granted(lc *localClaim, s *spot) (driver.Place, error) {
	e := s.entry()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !lc.become(claimHolding) {
		return driver.Place{}, driver.ErrGone // it left while this Enter was under way
	}
	lc.exclusive = lc.exclusive && e.exclusive() // a weight only falls
	if lc.watch == nil && d.endangered != nil && d.known[lc.id] == lc {
		lc.watch = time.AfterFunc(watchAfter, func() { d.watchOver(lc, e.ModifyIndex) })
	}
	return driver.Place{Ticket: e.ticket(), Holds: true, Ahead: s.at, TTL: max(1, lc.session.left())}, nil
}

// later is the place of a claim that does not hold now. A try does not wait, and a claim with others ahead of it gives the
// lock's key back that it took before it knew of them.
func (d *Driver) later(
	ctx context.Context, c *driver.Claim, lc *localClaim, s *spot, retry time.Duration,
) (driver.Place, error) {
	if c.Try {
		rest := s.q.except(func(e *entry) bool { return e.Session == lc.session.id })
		return *outside(rest), d.withdraw(ctx, c, lc, s.q, nil)
	}
	if s.hasKey && !s.fits {
		// The lock passed on while this claim asked: it found the lock's key free, and others ahead. Until it has given the
		// key back, clients of Consul's own find the lock taken, as they will when the head takes it.
		if _, _, err := d.change(ctx, lc, returnLockKey(lc, s)); err != nil {
			return driver.Place{}, err
		}
	}
	return d.waits(lc, s, retry)
}

// waits is the place of a claim that waits.
func (d *Driver) waits(lc *localClaim, s *spot, retry time.Duration) (driver.Place, error) {
	p := driver.Place{Ticket: s.entry().ticket(), Ahead: s.at, Retry: retry}
	switch {
	case s.at > 0:
		p.Blocker = s.q.standing(0)
	case s.q.barred():
		p.Ahead, p.Blocker = 1, s.q.stranger()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !lc.become(claimWaiting) {
		return driver.Place{}, driver.ErrGone // as in granted
	}
	p.TTL = max(1, lc.session.left())
	if lc.wait = s.q.before(s.at); lc.wait != nil && lc.wait.recurse {
		// The index of a folder counts keys too that are gone, and none that is left shows it. What changed up to the index that
		// Await was told is in this queue, which was read after that.
		lc.wait.index = max(lc.wait.index, lc.folderIndex)
	}
	return p, nil
}

// returnLockKey returns the operations that give the lock's key back which a claim has that is behind another. The answer
// may be lost, and the request come when the claim holds by that key. So it does nothing once the one before has gone.
func returnLockKey(lc *localClaim, s *spot) []op {
	before := s.q.entries[s.at-1]
	return []op{
		{Verb: same, Key: before.Key, Index: before.ModifyIndex},
		{Verb: locked, Key: s.q.lockKey.Key, Session: lc.session.id, about: lockKey},
		{Verb: remove, Key: s.q.lockKey.Key, about: lockKey},
	}
}

// withdraw takes a claim out that entered and may not stay, and returns why.
func (d *Driver) withdraw(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue, why error) error {
	if err := d.leave(ctx, c, lc, q); err != nil {
		return driver.Unknown(err)
	}
	return why
}

// outside is the place of a try that did not enter.
func outside(q *queue) *driver.Place {
	switch n := len(q.entries); {
	case n > 0:
		return &driver.Place{Ahead: n, Blocker: q.standing(0)}
	case q.barred():
		return &driver.Place{Ahead: 1, Blocker: q.stranger()}
	}
	return &driver.Place{}
}

// deleteDead removes claims whose session is over. It does not matter if that fails: they count for nothing, and a claim that
// enters anew does not get their place (newKey).
func (d *Driver) deleteDead(ctx context.Context, q *queue) {
	var ops []op
	for _, p := range q.dead[:min(len(q.dead), maxReclaim)] {
		ops = append(ops, op{Verb: same, Key: p.Key, Index: p.ModifyIndex}, op{Verb: remove, Key: p.Key})
	}
	if len(ops) > 0 {
		_, _, _ = d.transact(ctx, ops) // they count for nothing
	}
}
