package consul

import (
	"context"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// amendAll amends those of the claims that are to be changed, after their renewal.
func (d *Driver) amendAll(ctx context.Context, cs []*driver.Claim, answers []driver.Renewal) {
	for i, c := range cs {
		if c.Amend == nil || answers[i].Err != nil {
			continue
		}
		if err := d.amend(ctx, c); err != nil {
			answers[i] = driver.Renewal{Err: err}
		}
	}
}

// amend changes a claim where it stands: one transaction writes its key anew, by its own session, if nobody has changed it
// since it was read. A writer that becomes a reader gives the lock's key back in the same transaction. So an amendment that
// arrives after a later one, or after the claim has left, finds another index and changes nothing.
func (d *Driver) amend(ctx context.Context, c *driver.Claim) error {
	for range rounds {
		lc := d.localClaimOf(c)
		if lc == nil {
			return driver.ErrGone
		}
		q, err := d.look(ctx, c.Name)
		if err != nil {
			return uncertain(err)
		}
		e := q.find(c.ID)
		if e == nil || e.Left || e.Session != lc.session.id {
			d.finish(lc, claimLost)
			return driver.ErrGone
		}
		d.weigh(lc, e)
		s := q.spotOf(lc)
		weight, record, err := c.Amended(e.Weight, e.Record, d.holds(lc, s))
		if err != nil {
			return err
		}
		if weight == e.Weight && record == e.Record {
			d.move(lc, claimHolding) // an earlier request whose answer was lost did it: renewals look for the lock's key again
			return nil
		}
		ops, err := rewrite(s, weight, record)
		if err != nil {
			return driver.Refused(err)
		}
		bad, err := d.rewritten(ctx, lc, e, weight, ops)
		if err != nil {
			return uncertain(err)
		}
		if bad == nil {
			d.move(lc, claimHolding) // what was lost before finds another index now
			return nil
		}
	}
	return driver.Unknown(driver.Unreachable(errors.New("the queue changed each time while a claim was amended")))
}

// rewritten sends the transaction that amends a claim.
func (d *Driver) rewritten(ctx context.Context, lc *localClaim, e *entry, weight int64, ops []op) (*conflict, error) {
	now := *e
	now.Weight = weight
	d.weigh(lc, &now) // before the request, so that no renewal at the same time misses the lock's key
	_, bad, err := d.change(ctx, lc, ops)
	if bad != nil || driver.NotApplied(err) {
		d.weigh(lc, e)
	}
	return bad, err
}

// uncertain is the error of a request that came after the session was renewed: only a refusal says that nothing changed.
func uncertain(err error) error {
	if driver.OutcomeOf(err) == driver.OutcomeRefused {
		return err
	}
	return driver.Unknown(err)
}

// weigh notes whether a claim is exclusive, as its key has it.
func (d *Driver) weigh(lc *localClaim, e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lc.exclusive = e.exclusive()
}

// rewrite returns the operations that give a claim another weight and record. The lock's key shows the record too.
func rewrite(s *spot, weight int64, record string) ([]op, error) {
	e := *s.entry()
	e.Weight = weight
	if e.Record, e.Raw = record, nil; !utf8.ValidString(record) {
		e.Record, e.Raw = "", []byte(record)
	}
	text, err := json.Marshal(e.value)
	if err != nil {
		return nil, err
	}
	ops := []op{
		{Verb: same, Key: e.Key, Index: e.ModifyIndex, about: ownKey},
		{Verb: lock, Key: e.Key, Value: text, Flags: claimFlags, Session: e.Session, about: ownKey},
	}
	if !s.hasKey {
		return ops, nil
	}
	key := s.q.lockKey.Key
	ops = append(ops, op{Verb: locked, Key: key, Session: e.Session, about: lockKey})
	if e.exclusive() {
		return append(ops, op{Verb: lock, Key: key, Value: []byte(record), Flags: lockFlags, Session: e.Session, about: lockKey}), nil
	}
	return append(ops, op{Verb: remove, Key: key, about: lockKey}), nil
}
