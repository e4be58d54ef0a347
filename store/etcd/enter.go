package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// mostReclaimed is how many claims of earlier runs one transaction removes.
const mostReclaimed = 64

// Enter is one transaction, or a part of one, where nobody stands in line, and two for a claim that comes to stand behind
// others. For a claim that waits it is a keep-alive, and then one read.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return driver.Place{}, err
	}
	defer done()
	a := d.newAttempt(c)
	defer d.giveBack(a)
	p, in, err := d.enter(bounded, a)
	if err != nil {
		err = d.wire.explain(ctx, err)
		d.claims.dismiss(a.k)
	}
	if in {
		err = driver.Afterwards(err) // what failed came after the request that has let it in
	}
	return p, err
}

// enter asks first where a claim stands that is known to have entered. Whether another stands there, by an earlier request or by
// another driver, is found out by the transaction that puts its key. It reports whether the key is in etcd by now, and the
// client did not know that before.
func (d *Driver) enter(ctx context.Context, a *attempt) (p driver.Place, in bool, err error) {
	if a.c.Ticket != 0 || d.claims.lastSeen(a.k) != nil {
		p, over, err := d.stand(ctx, a)
		if !over || a.c.Ticket != 0 {
			return p, false, err
		}
		a.k, a.v, a.up, a.fresh = nil, nil, nil, false // it enters as if for the first time
	}
	if p, in, err = d.join(ctx, a); err != nil || !in {
		return p, in, err
	}
	p, _, err = d.stand(ctx, a)
	return p, true, err
}

// join puts the key of a claim, on a lease that it gets, if it may enter. It reports whether the claim stands in its queue: by that
// key, or already.
func (d *Driver) join(ctx context.Context, a *attempt) (p driver.Place, in bool, err error) {
	granted := false // its lease was granted for this call, so that it has to be there
	for {
		if err := d.outfit(ctx, a, &granted); err != nil {
			return p, false, &unsent{err}
		}
		m, err := d.pursue(ctx, a, joins)
		switch {
		case err != nil:
			return p, m.changes == takesIt, d.unjoined(ctx, a, m, err)
		case m.end == endEntered:
			return p, true, nil
		case m.end == endStands:
			a.up = nil
			d.meet(a)
			return p, true, nil
		case m.end != endSpoilt:
			d.claims.end(a.k, claimGone)
			return m.place, false, m.why
		case granted:
			return p, false, driver.ErrSession
		}
		d.strip(a, &granted)
	}
}

// unjoined is the error of a move by which a claim was to enter.
func (d *Driver) unjoined(ctx context.Context, a *attempt, m move, err error) error {
	switch {
	case m.txn == nil || m.changes == evicts:
		return &unsent{err} // nothing was asked for the claim itself
	case m.changes == takesIt:
		d.claims.end(a.k, claimKept) // the key goes with its lease
	case errors.Is(err, errOtherStore) && a.k.home.become(leaseOver):
		d.pool.revoke(ctx, []*lease{a.k.home}) // the key may be there, in the way of those who opened this store
	}
	return err
}

// outfit gives a claim a lease and a key, unless it has them from an earlier request, and says what the key is to hold.
func (d *Driver) outfit(ctx context.Context, a *attempt, granted *bool) error {
	for a.value == nil {
		if a.k == nil {
			from := d.pool.take
			if *granted {
				from = d.pool.grant
			}
			home, err := from(ctx, d.pool.seconds(a.c.TTL))
			if err != nil {
				return err
			}
			a.k = d.claims.remember(newLocalClaim(a.c, a.folder+hexOf(home.id), home))
			if a.k.home != home { // another call for the same claim was quicker
				d.pool.spare(home)
			}
		}
		a.value, a.up = valueOf(a.c), nil
		a.value.Term = a.k.home.term
		var err error
		if a.text, err = a.value.encode(); err != nil {
			return driver.Refused(err)
		}
		if !a.k.home.stale(boottime.Now()) {
			return nil
		}
		// It has been in the pool for a while. The transaction that puts the key tells whether the keep-alive counts.
		a.up, err = d.keepUp(ctx, a.k)
		if errors.Is(err, driver.ErrSession) && !*granted {
			d.strip(a, granted)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// strip takes the lease and the key from a claim that they are no good for. The next ones are new.
func (d *Driver) strip(a *attempt, granted *bool) {
	d.claims.end(a.k, claimLost)
	a.k, a.up, a.value, *granted = nil, nil, nil, true
}

// stand tells where a claim stands, or why it does not. It reports whether that is since its key is not there.
func (d *Driver) stand(ctx context.Context, a *attempt) (p driver.Place, over bool, err error) {
	m, err := d.pursue(ctx, a, stands)
	switch {
	case err != nil:
		return p, false, err
	case m.end == endExpelled:
		d.claims.end(a.k, claimGone)
		return p, false, m.why
	case m.end != endWaits && m.end != endHolds:
		return p, true, d.over(a, m)
	}
	p = m.place
	p.TTL = d.left(a.k, a.c, a.began)
	d.watches.noteQueue(a.c, a.k, a.v.q, m.at, !a.v.head || m.at == 0, a.v.seen, p.Holds)
	if a.v.head {
		p.Ahead = d.watches.countAhead(a.k, a.v.q[:m.at])
	}
	return p, false, nil
}

// over ends what is done for a claim that is not in its queue, and returns the error that says so.
func (d *Driver) over(a *attempt, m move) error {
	switch {
	case a.k == nil, m.end == endOther:
	case m.end == endLost:
		d.claims.end(a.k, claimLost)
		return driver.ErrSession
	case m.end == endKept:
		d.claims.end(a.k, claimKept)
	default:
		d.claims.end(a.k, claimGone)
	}
	return driver.ErrGone
}

// left returns how much of its lease a claim has for sure, from a moment on: at most what it asked for, unless the lease was
// longer before.
func (d *Driver) left(k *localClaim, c *driver.Claim, from time.Duration) time.Duration {
	life, _ := d.claims.leases(k)
	ttl, left := life.time(from)
	if c.TTL+time.Second > ttl {
		return min(left, c.TTL)
	}
	return left
}
