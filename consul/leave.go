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
	e := q.find(l.Claim.ID)
	if e == nil || e.Left {
		return driver.ErrGone
	}
	// The client that made the session may be gone: end it.
	st = d.keep(l.Claim, &session{id: e.Session, kind: kind{ttl: d.floor}, spoiled: true, alien: true}, claimUnsure)
	return d.leave(ctx, l.Claim, st, q)
}

// leave takes a claim out of its queue, which is as it says if it is known. Its session is free for another claim then.
func (d *Driver) leave(ctx context.Context, c *driver.Claim, st *stake, q *queue) error {
	for range rounds {
		d.mu.Lock()
		guarded := st.hasLockKey()
		d.mu.Unlock()
		if q != nil {
			guarded = q.has(st.session.id)
		}
		bad, err := d.takeOut(ctx, st, guarded)
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
		e := q.find(c.ID)
		if e == nil || e.Left {
			d.finish(st, claimLost)
			return driver.ErrGone
		}
		if e.Session != st.session.id { // it entered again by another client
			d.finish(st, claimLost)
			st = d.keep(c, &session{id: e.Session, kind: kind{ttl: d.floor}, spoiled: true, alien: true}, claimUnsure)
		}
	}
	return driver.Refused(driver.Unreachable(errors.New("the queue changed each time while a claim left it")))
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
	var after *session
	give := func(err error) error {
		if after != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.recycle(after)
		}
		return err
	}
	for range rounds {
		q, err := d.look(ctx, l.Claim.Name)
		if err != nil {
			return give(driver.NotYet(err))
		}
		e := q.find(l.Claim.ID)
		if st != nil && (e == nil || e.Left || e.Session != st.session.id) {
			d.finish(st, claimLost)
			st = nil
		}
		if e == nil || e.Left {
			return give(driver.ErrGone)
		}
		if st == nil {
			st = d.keep(l.Claim, &session{id: e.Session, kind: kind{ttl: d.floor}, spoiled: true, alien: true}, claimUnsure)
		}
		peers := q.peers(e.Capacity)
		if slices.Index(peers.entries, e) >= peers.holding() {
			return give(d.leave(ctx, l.Claim, st, q))
		}
		if after == nil {
			ttl := min(max(l.Keep, d.floor), driver.MaxTTL).Round(time.Millisecond)
			if after, err = d.create(ctx, kind{ttl: ttl}); err != nil {
				return err
			}
			after.spoiled = true
		}
		e.Left = true
		text, err := json.Marshal(e.value)
		if err != nil {
			return give(driver.Refused(err))
		}
		ops := []op{
			{Verb: unlock, Key: e.Key, Value: text, Flags: claimFlags, Session: e.Session, about: own},
			{Verb: lock, Key: e.Key, Value: text, Flags: claimFlags, Session: after.id, about: own},
		}
		if q.has(e.Session) {
			ops = append(ops, unlockGuard(q), lockGuard(st, after.id))
		}
		_, bad, err := d.change(ctx, st, ops)
		if err != nil {
			return err // the session of the lock's stay, which may have it, ends by its time
		}
		if bad == nil {
			d.finish(st, claimLeft)
			d.endAfter(after, l.Keep)
			return nil
		}
	}
	return give(driver.Refused(driver.Unreachable(errors.New("the queue changed each time while a claim left it"))))
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
