package consul

import (
	"context"
	"slices"

	"github.com/stilelock/stile/driver"
)

// apply is the third step of Enter: one transaction puts a claim into its queue, takes the earlier ones out and, if the way
// is free as far as is known, takes the lock's key. It returns the claim and the queue after that, or what was in the way, and
// then nothing was applied.
func (d *Driver) apply(ctx context.Context, c *driver.Claim, q *queue, earlier []*entry) (*stake, *queue, *conflict, error) {
	text, err := d.valueOf(c)
	if err != nil {
		return nil, nil, nil, driver.Refused(err)
	}
	s, err := d.take(ctx, d.kindOf(c))
	if err != nil {
		return nil, nil, nil, err
	}
	st := d.newStake(c, s, claimAsking)
	d.keep(st) // before the request: should its answer be lost, the next call knows which session it has
	key := op{Verb: lock, Key: st.key, Value: text, Flags: claimFlags, Session: s.id, about: own}
	enters := append(evict(q, earlier), key)
	takes := seizeAtOnce(st, q, earlier)
	after, bad, err := d.try(ctx, st, slices.Concat(enters, takes))
	if bad != nil && len(takes) > 0 && !c.Try && bad.isOnlyAbout(guard) {
		after, bad, err = d.try(ctx, st, enters) // somebody has the lock: stand in the queue
	}
	switch {
	case bad != nil && bad.sessionless():
		d.finish(st, claimLost) // the next attempt needs another session
	case bad != nil || driver.NotApplied(err):
		d.finish(st, claimLeft) // nothing of it is in the store, and nothing is on its way
	}
	return st, after, bad, err
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
func (d *Driver) try(ctx context.Context, st *stake, ops []op) (*queue, *conflict, error) {
	pairs, bad, err := d.change(ctx, st, append(slices.Clip(ops), op{Verb: tree, Key: st.folder}))
	if err != nil || bad != nil {
		return nil, bad, err
	}
	return parse(st.name, st.folder, pairs), nil, nil
}

// check is the operation that fails unless a claim is there.
func (d *Driver) check(st *stake) []op {
	return []op{{Verb: locked, Key: st.key, Session: st.session.id, about: own}}
}

// seizeAtOnce returns the operations that take the guard with the request for the claim's key, if nobody but the earlier
// claims is known to stand in the queue.
func seizeAtOnce(st *stake, q *queue, earlier []*entry) []op {
	if q != nil {
		q = q.after(earlier)
	}
	if !st.exclusive || q != nil && len(q.entries) > 0 {
		return nil
	}
	return seize(q, st)
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
