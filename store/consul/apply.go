package consul

import (
	"context"
	"slices"

	"github.com/stilelock/stile/driver"
)

// apply is the third step of Enter: one transaction puts a claim into its queue, takes the earlier ones out and, if the
// way is free as far as is known, takes the lock's key. It returns the claim and the queue after that, or what was in
// the way, and then nothing was applied.
func (d *Driver) apply(
	ctx context.Context, c *driver.Claim, q *queue, earlier []*entry,
) (lc *localClaim, after *queue, bad *conflict, err error) {
	text, err := d.valueOf(c)
	if err != nil {
		return nil, nil, nil, driver.Refused(err)
	}
	seen, err := d.index.seen()
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := d.take(ctx, d.kindOf(c))
	if err != nil {
		return nil, nil, nil, err
	}
	// It is in the table before the request: should the answer be lost, the next call knows which session it has.
	lc = d.newLocalClaim(c, s, claimAsking)
	earlier = earlier[:min(len(earlier), maxReclaim)] // judge removes the others
	takes := takeLockKeyAtOnce(lc, q, earlier)
	d.keep(lc)
	enters := slices.Concat(evict(q, earlier), newKey(q, lc, text))
	after, bad, err = d.try(ctx, lc, slices.Concat(enters, takes))
	if bad != nil && len(takes) > 0 && !c.Try && bad.isOnlyAbout(lockKey) {
		// Somebody has the lock's key, or it is in its lock-delay: stand in the queue without it. If it comes free between
		// the two requests, judge takes it.
		after, bad, err = d.try(ctx, lc, enters)
	}
	switch {
	case bad != nil && (bad.sessionless() || bad.about[ownKey]):
		d.finish(lc, claimLost) // the next attempt needs another session, or the key is there, and who knows by whose request
	case bad != nil || driver.NotApplied(err):
		d.finish(lc, claimLeft) // nothing of it is in the store, and nothing is on its way
	case err == nil:
		if other := d.index.wrote(after.find(c.ID), seen); other != nil {
			err = d.withdraw(ctx, c, lc, after, other)
		}
	}
	return lc, after, bad, err
}

// newKey returns the operations that make a claim's key. It must not be there: who locks a key that has lost its session gets the
// key's place of before, which may be ahead of claims that hold by now.
func newKey(q *queue, lc *localClaim, text []byte) (ops []op) {
	if q != nil {
		for _, p := range q.dead {
			if p.Key == lc.key {
				ops = append(ops, op{Verb: same, Key: p.Key, Index: p.ModifyIndex, about: ownKey}, op{Verb: remove, Key: p.Key, about: ownKey})
			}
		}
	}
	return append(ops,
		op{Verb: missing, Key: lc.key, about: ownKey},
		op{Verb: lock, Key: lc.key, Value: text, Flags: claimFlags, Session: lc.session.id, about: ownKey})
}

// change applies a transaction that changes what a claim has. All of them go this way: one whose answer was lost leaves the
// claim unsure, and with that its session serves no other claim.
func (d *Driver) change(ctx context.Context, lc *localClaim, ops []op) ([]pair, *conflict, error) {
	pairs, bad, err := d.transact(ctx, ops)
	if err != nil && !driver.NotApplied(err) {
		d.move(lc, claimUnsure)
	}
	return pairs, bad, err
}

// try is change that returns the queue after it.
func (d *Driver) try(ctx context.Context, lc *localClaim, ops []op) (*queue, *conflict, error) {
	pairs, bad, err := d.change(ctx, lc, append(slices.Clip(ops), op{Verb: tree, Key: lc.folder}))
	if err != nil || bad != nil {
		return nil, bad, err
	}
	return parse(lc.name, lc.folder, pairs), nil, nil
}

// check is the operation that fails unless a claim is there.
func (d *Driver) check(lc *localClaim) []op {
	return []op{{Verb: locked, Key: lc.key, Session: lc.session.id, about: ownKey}}
}

// takeLockKeyAtOnce returns the operations that take the lock's key with the request for the claim's key, if nobody but
// the earlier claims is known to stand in the queue.
func takeLockKeyAtOnce(lc *localClaim, q *queue, earlier []*entry) []op {
	if q != nil {
		q = q.after(earlier)
	}
	if !lc.exclusive || q != nil && len(q.entries) > 0 {
		return nil
	}
	return takeLockKey(q, lc)
}

// takeLockKey returns the operations that give the lock's key to the session of a claim at the head, if the lock's key
// is what the queue says; with no queue, if it is not there. There are none if a client of another kind has it.
func takeLockKey(q *queue, lc *localClaim) []op {
	takes := acquireLockKey(lc, lc.session.id)
	switch {
	case q == nil || q.lockKey == nil:
		return []op{{Verb: missing, Key: takes.Key, about: lockKey}, takes}
	case q.lockKey.Flags != lockFlags:
		return nil
	case q.lockKey.Session == "":
		return []op{{Verb: same, Key: takes.Key, Index: q.lockKey.ModifyIndex, about: lockKey}, takes}
	case q.of(q.lockKey.Session) != nil:
		// A claim that is not at the head took it before it saw that others stand ahead. It does not hold by it, since judge
		// goes by the order of the queue first: so the head may take it away.
		return []op{releaseLockKey(q), takes}
	}
	return nil
}

func acquireLockKey(lc *localClaim, session string) op {
	return op{Verb: lock, Key: lc.folder + lockKeyName, Value: lc.record, Flags: lockFlags, Session: session, about: lockKey}
}

func releaseLockKey(q *queue) op {
	return op{Verb: unlock, Key: q.lockKey.Key, Flags: q.lockKey.Flags, Session: q.lockKey.Session, about: lockKey}
}

// evict returns the operations that remove claims, and the lock's key if one of them has it.
func evict(q *queue, victims []*entry) (ops []op) {
	for _, e := range victims {
		ops = append(ops, op{Verb: locked, Key: e.Key, Session: e.Session}, op{Verb: remove, Key: e.Key})
		if q.has(e.Session) {
			ops = append(ops, op{Verb: locked, Key: q.lockKey.Key, Session: e.Session}, op{Verb: remove, Key: q.lockKey.Key})
		}
	}
	return ops
}
