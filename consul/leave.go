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
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	st := d.stakeOf(l.Claim)
	if l.Keep > 0 {
		return d.stay(ctx, st, l)
	}
	if st != nil {
		return d.leave(ctx, l.Claim, st, nil)
	}
	q, err := d.look(ctx, l.Claim.Name)
	if err != nil {
		return driver.NotYet(err)
	}
	if st = d.owner(l.Claim, nil, q); st == nil {
		return driver.ErrGone
	}
	return d.leave(ctx, l.Claim, st, q)
}

// owner returns a claim as it stands in a queue: the one that is known here or, if it stands there by another client, that
// client's. It is nil if the claim is not there. Another's session is not renewed, and is ended when the claim has left:
// the client that made it may be gone.
func (d *Driver) owner(c *driver.Claim, st *stake, q *queue) *stake {
	e := q.find(c.ID)
	if st != nil && e != nil && e.Session == st.session.id {
		return st
	}
	if st != nil {
		d.finish(st, claimLost)
	}
	if e == nil || e.Left {
		return nil
	}
	s := &session{id: e.Session, kind: kind{ttl: d.floor}, spoiled: true, alien: true}
	return d.newStake(c, s, claimUnsure)
}

// leave takes a claim out of its queue, which is as it says if it is known. Its session is free for another claim then.
func (d *Driver) leave(ctx context.Context, c *driver.Claim, st *stake, q *queue) error {
	for range rounds {
		bad, err := d.takeOut(ctx, st, d.keyIsHad(st, q))
		if err != nil {
			return err
		}
		if bad == nil {
			d.finish(st, claimLeft)
			return nil
		}
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.NotYet(err)
		}
		if st = d.owner(c, st, q); st == nil {
			return driver.ErrGone
		}
	}
	return driver.Refused(driver.Unreachable(errors.New("the queue changed each time while a claim left it")))
}

// keyIsHad reports whether a claim has the guard: by its queue or, if that is not known, by its state.
func (d *Driver) keyIsHad(st *stake, q *queue) bool {
	if q != nil {
		return q.has(st.session.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return st.hasLockKey()
}

// takeOut removes a claim's key, and the guard with it. If the claim is not known to have the guard, but has it by
// another client's doing, that follows.
func (d *Driver) takeOut(ctx context.Context, st *stake, guarded bool) (*conflict, error) {
	unguard := []op{
		{Verb: locked, Key: st.folder + guardKey, Session: st.session.id, about: guard},
		{Verb: remove, Key: st.folder + guardKey, about: guard},
	}
	ops := append(d.check(st), op{Verb: remove, Key: st.key, about: own})
	if guarded {
		ops = append(ops, unguard...)
	} else {
		ops = append(ops, op{Verb: tree, Key: st.folder + guardKey})
	}
	found, bad, err := d.change(ctx, st, ops)
	if err == nil && len(found) > 0 && parse("", st.folder, found).has(st.session.id) {
		_, _, err = d.change(ctx, st, unguard)
		err = driver.Afterwards(err) // the claim is out, and what remains of it keeps others out
	}
	return bad, err
}

// stay hands the keys of a claim that holds over to a session that lasts as long as the lock is to stay taken, and ends
// it when that time is over. Should this client be gone by then, the session's own time ends it, later.
func (d *Driver) stay(ctx context.Context, st *stake, l *driver.Departure) error {
	var after *session // made once it is known that the claim holds
	for range rounds {
		q, err := d.look(ctx, l.Claim.Name)
		if err != nil {
			return d.without(after, driver.NotYet(err))
		}
		if st = d.owner(l.Claim, st, q); st == nil {
			return d.without(after, driver.ErrGone)
		}
		s := q.spotOf(st, q.find(l.Claim.ID).Capacity)
		if !s.fits {
			return d.without(after, d.leave(ctx, l.Claim, st, q))
		}
		if after == nil {
			ttl := min(max(l.Keep, d.floor), driver.MaxTTL).Round(time.Millisecond)
			if after, err = d.create(ctx, kind{ttl: ttl}); err != nil {
				return err
			}
			after.spoiled = true
		}
		ops, err := handOver(st, s, after)
		if err != nil {
			return d.without(after, driver.Refused(err))
		}
		_, bad, err := d.change(ctx, st, ops)
		switch {
		case driver.NotApplied(err):
			return d.without(after, err)
		case err != nil:
			return err // after may have the keys, and ends by its time
		case bad == nil:
			d.finish(st, claimLeft)
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
func handOver(st *stake, s *spot, to *session) ([]op, error) {
	e := *s.peers.entries[s.at]
	e.Left = true
	text, err := json.Marshal(e.value)
	if err != nil {
		return nil, err
	}
	ops := []op{
		{Verb: unlock, Key: e.Key, Value: text, Flags: claimFlags, Session: e.Session, about: own},
		{Verb: lock, Key: e.Key, Value: text, Flags: claimFlags, Session: to.id, about: own},
	}
	if s.hasKey {
		ops = append(ops, unlockGuard(s.q), lockGuard(st, to.id))
	}
	return ops, nil
}

// endAfter ends a session after a while, unless the driver is closed before.
func (d *Driver) endAfter(s *session, length time.Duration) {
	d.spawn(func() {
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
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (driver.Standing, error) {
	for range rounds {
		q, err := d.look(ctx, b.Name)
		if err != nil {
			return driver.Standing{}, err
		}
		i := slices.IndexFunc(q.entries, func(e *entry) bool { return b.Ticket == 0 || e.ticket() == b.Ticket })
		if i < 0 {
			return driver.Standing{}, driver.ErrGone
		}
		e, s := q.entries[i], q.standing(i)
		if _, bad, err := d.transact(ctx, evict(q, []*entry{e})); err != nil || bad == nil {
			return s, err
		}
	}
	return driver.Standing{}, driver.Unreachable(errors.New("the queue changed each time while a claim was removed"))
}
