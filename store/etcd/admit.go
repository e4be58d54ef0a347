package etcd

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// admit decides by the queue as it was read last whether a claim may join it, and gives it a lease and a key. The place is
// where a claim stands that may not: one that only tries, and would wait. No queue was read yet if nothing is known: then it
// is as if nobody were there, and apply finds out.
func (d *Driver) admit(ctx context.Context, a *attempt) (*driver.Place, error) {
	if p, err := a.q.Admit(a.c); p != nil || err != nil {
		if a.k != nil {
			d.claims.end(a.k, claimGone)
		}
		return p, err
	}
	if a.k != nil && at(a.q, a.k.key) >= 0 {
		d.strip(a) // another client has put this very key
	}
	if a.k != nil && a.value != nil {
		return nil, nil
	}
	a.value = valueOf(a.c)
	if err := d.outfit(ctx, a); err != nil {
		return nil, &unsent{err}
	}
	a.value.Term, a.up = a.k.home.term, nil
	if !a.k.home.stale(boottime.Now()) {
		return nil, nil
	}
	// It has been in the pool for a while. The transaction that puts the key tells whether the keep-alive counts.
	up, err := d.keepUp(ctx, a.k)
	switch {
	case err == nil:
		a.up = up
	case errors.Is(err, driver.ErrSession) && !a.granted:
		d.strip(a) // as if the transaction had been told so
		return d.admit(ctx, a)
	default:
		return nil, &unsent{err}
	}
	return nil, nil
}

// outfit gives a claim a lease and a key, unless it has them from an earlier request.
func (d *Driver) outfit(ctx context.Context, a *attempt) error {
	if a.k != nil {
		return nil
	}
	from := d.pool.take
	if a.granted {
		from = d.pool.grant
	}
	home, err := from(ctx, d.pool.seconds(a.c.TTL))
	if err != nil {
		return err
	}
	a.k = d.claims.remember(newLocalClaim(a.c, d.wire.folder(a.c.Name)+hexOf(home.id), home))
	if a.k.home != home { // another call for the same claim was quicker
		d.pool.spare(home)
	}
	return nil
}

// strip takes the lease and the key from a claim that they are no good for. The next ones are new.
func (d *Driver) strip(a *attempt) {
	d.claims.end(a.k, claimLost)
	a.k, a.up, a.granted = nil, nil, true
}
