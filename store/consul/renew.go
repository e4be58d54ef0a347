package consul

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

const (
	atOnce = 16 // how many sessions are renewed at once
	perTxn = 64 // how many operations a transaction may have
)

// Renew renews the session of each claim, and checks whether the claims still have their keys, many in one transaction.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	locals := make([]*localClaim, len(cs))
	work.Each(len(cs), atOnce, func(i int) { locals[i], answers[i] = d.renew(ctx, cs[i]) })
	d.confirm(ctx, locals, answers)
	for i, lc := range locals {
		if lc == nil || !errors.Is(answers[i].Err, driver.ErrGone) {
			continue
		}
		d.claims.finish(lc, claimLost)
		switch now, err := d.adopt(ctx, cs[i], lc.session.id); {
		case err == nil: // another client entered it again
			answers[i] = driver.Renewal{TTL: now.session.ttl}
		case !errors.Is(err, driver.ErrGone):
			answers[i].Err = err
		}
	}
	d.amendAll(ctx, cs, answers)
	return answers
}

// adopt makes this client renew a claim that another client entered, such as a detached claim. Only adopt puts such a claim
// into the table; every other call uses it once. The error is [driver.ErrGone] if the claim is not in the queue, or only
// with the session that it had here.
func (d *Driver) adopt(ctx context.Context, c *driver.Claim, had string) (*localClaim, error) {
	lc, q, err := d.visitor(ctx, c, nil, had)
	if err != nil {
		return nil, err
	}
	if at := q.at(seatOf(c, lc)); at < q.entries.Holding() && q.hasLockKey(lc.session.id) {
		d.claims.become(lc, claimHolding) // so that confirm checks the lock's key too
	}
	return d.claims.remember(lc), nil
}

// renew renews a claim's session.
func (d *Driver) renew(ctx context.Context, c *driver.Claim) (*localClaim, driver.Renewal) {
	lc := d.claims.of(c)
	if lc == nil {
		var err error
		if lc, err = d.adopt(ctx, c, ""); err != nil {
			return nil, driver.Renewal{Err: err}
		}
		return lc, driver.Renewal{TTL: lc.session.ttl}
	}
	if err := d.sessions.prolong(ctx, lc.session); err != nil {
		return lc, driver.Renewal{Err: err}
	}
	return lc, driver.Renewal{TTL: lc.session.ttl}
}

// confirm checks whether the renewed claims have their keys.
func (d *Driver) confirm(ctx context.Context, locals []*localClaim, answers []driver.Renewal) {
	var (
		ops   []op
		whose []int
	)
	for i, lc := range locals {
		if lc == nil || answers[i].Err != nil {
			continue
		}
		ops = append(ops, op{Verb: locked, Key: lc.key, Session: lc.session.id, about: ownKey})
		whose = append(whose, i)
		if d.claims.hasLockKey(lc) {
			ops = append(ops, op{Verb: locked, Key: lc.folder + lockKeyName, Session: lc.session.id, about: lockKey})
			whose = append(whose, i)
		}
		if len(ops) > perTxn-2 {
			d.decide(ctx, ops, whose, locals, answers)
			ops, whose = nil, nil
		}
	}
	d.decide(ctx, ops, whose, locals, answers)
}

// decide sends operations in one transaction; each belongs to a claim, and the answer decides about the claim's renewal. If
// some operations are denied, the answer says nothing about the others. They are sent again without the denied claims, so
// there are fewer each time.
func (d *Driver) decide(ctx context.Context, ops []op, whose []int, locals []*localClaim, answers []driver.Renewal) {
	for len(ops) > 0 {
		_, bad, err := d.agent.transact(ctx, ops)
		if denied, ok := errors.AsType[*denial](err); ok && len(denied.indexes) > 0 {
			for k := range denied.indexes {
				answers[whose[k]] = driver.Renewal{Err: err}
			}
			ops, whose = undecided(ops, whose, answers)
			continue
		}
		for k, i := range whose {
			switch {
			case err != nil:
				answers[i] = driver.Renewal{Err: err}
			case bad != nil && bad.indexes[k] && (ops[k].about != lockKey || d.claims.hasLockKey(locals[i])):
				answers[i] = driver.Renewal{Err: driver.ErrGone}
			}
		}
		return
	}
}

// undecided returns the operations of the claims whose renewal has no error, and the claim of each operation.
func undecided(ops []op, whose []int, answers []driver.Renewal) (left []op, theirs []int) {
	for k, i := range whose {
		if answers[i].Err == nil {
			left, theirs = append(left, ops[k]), append(theirs, i)
		}
	}
	return left, theirs
}
