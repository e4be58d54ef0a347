package consul

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
)

// lookup is the first step of Enter: it finds a claim where it stands, with the queue, and starts its lease anew. There
// is no claim if this client has none and it may enter. A claim with a ticket has entered before: it is found, or it is
// gone.
func (d *Driver) lookup(ctx context.Context, c *driver.Claim) (*localClaim, *queue, error) {
	lc := d.localClaimOf(c)
	if lc == nil && c.Ticket == 0 {
		return nil, nil, nil
	}
	var (
		q    *queue
		gone = driver.ErrGone
	)
	if lc != nil {
		var err error
		if q, err = d.standing(ctx, c, lc); !errors.Is(err, driver.ErrGone) {
			return lc, q, err
		}
		if c.Ticket == 0 && !q.kept(c.ID) {
			return nil, nil, d.abandon(ctx, lc)
		}
		d.finish(lc, claimLost)
		gone = err
	}
	// It may stand there all the same: another client may have entered it, or entered it again.
	if q == nil {
		var err error
		if q, err = d.look(ctx, c.Name); err != nil {
			return nil, nil, err
		}
	}
	e := q.find(c.ID)
	if e == nil || lc != nil && e.Session == lc.session.id {
		return nil, nil, gone
	}
	visitor, err := d.visitor(ctx, c, q)
	return visitor, q, err
}

// standing starts the lease of a claim of this client anew and returns the queue in which the claim stands. The error is
// [driver.ErrGone] if it stands there no more, or not by the session that it has here.
func (d *Driver) standing(ctx context.Context, c *driver.Claim, lc *localClaim) (q *queue, err error) {
	d.mu.Lock()
	stale := lc.session.left() < lc.session.ttl*3/4
	called := lc.state == claimCalled && lc.exclusive
	d.mu.Unlock()
	if stale {
		if err := d.extend(ctx, lc.session); err != nil {
			return nil, err
		}
	}
	if called {
		// What stood before it is gone, so the way is free, most likely: take the lock's key without looking. Should others
		// stand before it yet, judge gives the key back, and who is at the head can take it from here meanwhile.
		q, _, err = d.try(ctx, lc, slices.Concat(d.check(lc), takeLockKey(nil, lc)))
	}
	if err == nil && q == nil {
		q, err = d.look(ctx, c.Name)
	}
	if err != nil {
		return nil, err
	}
	switch e := q.find(c.ID); {
	case e == nil:
		if err := d.extend(ctx, lc.session); errors.Is(err, driver.ErrSession) {
			return q, err // which says more than that the key is not there
		}
		return q, driver.ErrGone
	case e.Left, e.Session != lc.session.id:
		return q, driver.ErrGone
	}
	return q, nil
}

// extend starts a session's lease anew. The error is [driver.ErrSession] if the session is over.
func (d *Driver) extend(ctx context.Context, s *session) error {
	over, err := d.prolong(ctx, s)
	if err == nil && over {
		err = driver.ErrSession
	}
	return err
}

// abandon ends the session of a claim that does not know whether it ever entered, and is not in the queue. The request
// for its key may be on its way yet, and needs the session: once that is over, the claim may enter anew.
func (d *Driver) abandon(ctx context.Context, lc *localClaim) error {
	if err := d.end(ctx, lc.session); err != nil {
		return err
	}
	d.finish(lc, claimLost)
	return nil
}

// visitor returns a claim that another client entered, with its lease started anew, for the call that asks for it: it is not
// in the table, where [Driver.Renew] alone puts it.
func (d *Driver) visitor(ctx context.Context, c *driver.Claim, q *queue) (*localClaim, error) {
	e := q.find(c.ID)
	if e == nil || e.Left {
		return nil, driver.ErrGone
	}
	s, err := d.join(ctx, e.Session)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, driver.ErrSession
	}
	return d.newLocalClaim(c, s, claimUnsure), nil
}
