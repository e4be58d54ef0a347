package consul

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// Leave is one transaction.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	lc := d.localClaimOf(l.Claim)
	if l.Keep > 0 {
		return d.stay(ctx, lc, l)
	}
	if lc != nil {
		return d.leave(ctx, l.Claim, lc, nil)
	}
	q, err := d.look(ctx, l.Claim.Name)
	if err != nil {
		return driver.NotYet(err)
	}
	if lc = d.owner(l.Claim, nil, q); lc == nil {
		return driver.ErrGone
	}
	return d.leave(ctx, l.Claim, lc, q)
}

// owner returns a claim as it stands in a queue: the one that is known here or, if it stands there by another client, that
// client's. It is nil if the claim is not there. Another's session is not renewed, and is ended when the claim has left:
// the client that made it may be gone.
func (d *Driver) owner(c *driver.Claim, lc *localClaim, q *queue) *localClaim {
	e := q.find(c.ID)
	if lc != nil && e != nil && e.Session == lc.session.id {
		return lc
	}
	if lc != nil {
		d.finish(lc, claimLost)
	}
	if e == nil || e.Left {
		return nil
	}
	s := &session{id: e.Session, kind: kind{ttl: d.floor}, spoiled: true, borrowed: true}
	return d.newLocalClaim(c, s, claimUnsure)
}

// leave takes a claim out of its queue, which is as it says if it is known. Its session is free for another claim then.
func (d *Driver) leave(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue) error {
	for range rounds {
		bad, err := d.takeOut(ctx, lc, d.keyIsHad(lc, q))
		if err != nil {
			return err
		}
		if bad == nil {
			d.finish(lc, claimLeft)
			return nil
		}
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.NotYet(err)
		}
		if lc = d.owner(c, lc, q); lc == nil {
			return driver.ErrGone
		}
	}
	return driver.Refused(driver.Unreachable(errors.New("the queue changed each time while a claim left it")))
}

// keyIsHad reports whether a claim has the lock's key: by its queue or, if that is not known, by its state.
func (d *Driver) keyIsHad(lc *localClaim, q *queue) bool {
	if q != nil {
		return q.has(lc.session.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return lc.hasLockKey()
}

// takeOut removes a claim's key, and the lock's key with it. If the claim is not known to have the lock's key, but has it by
// another client's doing, that follows.
func (d *Driver) takeOut(ctx context.Context, lc *localClaim, hasKey bool) (*conflict, error) {
	returns := []op{
		{Verb: locked, Key: lc.folder + lockKeyName, Session: lc.session.id, about: lockKey},
		{Verb: remove, Key: lc.folder + lockKeyName, about: lockKey},
	}
	ops := append(d.check(lc), op{Verb: remove, Key: lc.key, about: ownKey})
	if hasKey {
		ops = append(ops, returns...)
	} else {
		ops = append(ops, op{Verb: tree, Key: lc.folder + lockKeyName})
	}
	found, bad, err := d.change(ctx, lc, ops)
	if err == nil && len(found) > 0 && parse("", lc.folder, found).has(lc.session.id) {
		_, _, err = d.change(ctx, lc, returns)
		err = driver.Afterwards(err) // the claim is out, and what remains of it keeps others out
	}
	return bad, err
}

// stay hands the keys of a claim that holds over to a session that lasts as long as the lock is to stay taken, and ends
// it when that time is over. Should this client be gone by then, the session's own time ends it, later.
func (d *Driver) stay(ctx context.Context, lc *localClaim, l *driver.Release) error {
	var after *session // made once it is known that the claim holds
	for range rounds {
		q, err := d.look(ctx, l.Claim.Name)
		if err != nil {
			return d.without(after, driver.NotYet(err))
		}
		if lc = d.owner(l.Claim, lc, q); lc == nil {
			return d.without(after, driver.ErrGone)
		}
		s := q.spotOf(lc)
		if !s.fits {
			return d.without(after, d.leave(ctx, l.Claim, lc, q))
		}
		if after == nil {
			ttl := min(max(l.Keep, d.floor), driver.MaxTTL).Round(time.Millisecond)
			if after, err = d.create(ctx, kind{ttl: ttl}); err != nil {
				return err
			}
			after.spoiled = true
		}
		ops, err := handOver(lc, s, after)
		if err != nil {
			return d.without(after, driver.Refused(err))
		}
		_, bad, err := d.change(ctx, lc, ops)
		switch {
		case driver.NotApplied(err):
			return d.without(after, err)
		case err != nil:
			return err // after may have the keys, and ends by its time
		case bad == nil:
			d.finish(lc, claimLeft)
			d.endAfter(after, l.Keep)
			return nil
		}
	}
	err := errors.New("the queue changed each time while a claim left it")
	return d.without(after, driver.Refused(driver.Unreachable(err)))
}

// without gives the session of a stay back that did not come to be, and returns why.
func (d *Driver) without(after *session, why error) error {
	if after != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.recycle(after)
	}
	return why
}

// handOver returns the operations that give the keys of a claim to another session, and mark it as one that has left.
func handOver(lc *localClaim, s *spot, to *session) ([]op, error) {
	e := *s.entry()
	e.Left = true
	text, err := json.Marshal(e.value)
	if err != nil {
		return nil, err
	}
	ops := []op{
		{Verb: unlock, Key: e.Key, Value: text, Flags: claimFlags, Session: e.Session, about: ownKey},
		{Verb: lock, Key: e.Key, Value: text, Flags: claimFlags, Session: to.id, about: ownKey},
	}
	if s.hasKey {
		takes := acquireLockKey(lc, to.id)
		takes.Value = s.q.lockKey.Value // the record may have been amended
		ops = append(ops, releaseLockKey(s.q), takes)
	}
	return ops, nil
}

// endAfter ends a session after a while, unless the driver is closed before.
func (d *Driver) endAfter(s *session, length time.Duration) {
	d.life.Go(func() {
		timer := time.NewTimer(length)
		defer timer.Stop()
		select {
		case <-timer.C:
			d.returnAll([]*session{s})
		case <-d.ctx.Done():
		}
	})
}

// Break is [driver.Breaker]. It leaves the lock to the next in the queue without a lock-delay.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	for range rounds {
		q, err := d.look(ctx, b.Name)
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		i := slices.IndexFunc(q.entries, func(e *entry) bool { return b.Ticket == 0 || e.ticket() == b.Ticket })
		if i < 0 {
			return driver.ClaimInfo{}, driver.ErrGone
		}
		// The queue is read once more with the deletion, since those ahead may have left meanwhile.
		e := q.entries[i]
		pairs, bad, err := d.transact(ctx, append([]op{{Verb: tree, Key: q.folder}}, evict(q, []*entry{e})...))
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		if bad == nil {
			now := parse(b.Name, q.folder, pairs)
			at := slices.IndexFunc(now.entries, func(n *entry) bool { return n.id == e.id })
			if at < 0 { // somebody has written over the claim by hand
				return q.standing(i), nil
			}
			return now.standing(at), nil
		}
	}
	return driver.ClaimInfo{}, driver.Unreachable(errors.New("the queue changed each time while a claim was removed"))
}
