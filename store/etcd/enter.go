package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// mostReclaimed bounds the claims of earlier runs that one transaction removes.
const mostReclaimed = 64

// Enter takes one transaction, or a part of one, if the name's queue is empty, and two transactions if the claim enters
// behind others. For a claim that is in the queue it takes a keep-alive and then a read.
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
		err = driver.Afterwards(err) // the failed request came after the one that put the key
	}
	return p, err
}

// enter reads the place of a claim that is known to have entered. For any other claim it begins with the transaction that
// puts the key: its answer shows whether an earlier request, or another driver, put a key for the claim before. in reports
// that this call found or put the key, so the client did not know of it before.
func (d *Driver) enter(ctx context.Context, a *attempt) (p driver.Place, in bool, err error) {
	if a.c.Ticket != 0 || d.claims.lastSeen(a.k) != nil {
		p, over, err := d.stand(ctx, a)
		if !over || a.c.Ticket != 0 {
			return p, false, err
		}
		a.k, a.v, a.up, a.fresh = nil, nil, nil, false // enter as if for the first time
	}
	if p, in, err = d.join(ctx, a); err != nil || !in {
		return p, in, err
	}
	p, _, err = d.stand(ctx, a)
	return p, true, err
}

// join gets a lease for a claim, and puts the claim's key if the claim may enter. in reports whether the claim is in its
// queue, by this key or by an earlier one.
func (d *Driver) join(ctx context.Context, a *attempt) (p driver.Place, in bool, err error) {
	granted := false // the lease was granted in this call; if etcd does not know it, the lease has already ended
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

// unjoined returns the error of a failed move of joins.
func (d *Driver) unjoined(ctx context.Context, a *attempt, m move, err error) error {
	switch {
	case m.txn == nil || m.changes == evicts:
		return &unsent{err} // no request was sent about the claim itself
	case m.changes == takesIt:
		d.claims.end(a.k, claimKept) // the key goes with its lease
	case errors.Is(err, errOtherStore) && a.k.home.become(leaseOver):
		d.pool.revoke(ctx, []*lease{a.k.home}) // the other store may have the key now, and its clients would wait for it
	}
	return err
}

// outfit gives a claim a lease and the name of its key, unless it has them from an earlier request, and encodes the key's
// value.
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
			if a.k.home != home { // another call for the same claim came first
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
		// The lease was in the pool for a while. The answer to the put shows whether the keep-alive counts: see term.go.
		a.up, err = d.keepUp(ctx, a.k)
		if errors.Is(err, driver.ErrSession) && !*granted {
			d.strip(a, granted)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// strip ends a claim's use of a lease and key that cannot serve it. The next lease is a new one, not one from the pool.
func (d *Driver) strip(a *attempt, granted *bool) {
	d.claims.end(a.k, claimLost)
	a.k, a.up, a.value, *granted = nil, nil, nil, true
}

// stand returns a claim's place, or the reason why it has none. over reports that the reason is a missing key or lease.
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

// over ends the local claim after a move that did not find the claim in its queue. It returns ErrSession if the lease
// ended, and else ErrGone.
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

// left returns the time that a claim's lease certainly has left at a moment. It is at most the claim's TTL, unless the
// lease is at least a second longer.
func (d *Driver) left(k *localClaim, c *driver.Claim, from time.Duration) time.Duration {
	life, _ := d.claims.leases(k)
	ttl, left := life.time(from)
	if c.TTL+time.Second > ttl {
		return min(left, c.TTL)
	}
	return left
}
