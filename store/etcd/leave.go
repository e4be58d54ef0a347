package etcd

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leave takes one request for a claim that entered by this driver, unless the claim is to be kept, or may be in its
// lock-delay.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return d.wire.explain(ctx, d.leave(bounded, l))
}

func (d *Driver) leave(ctx context.Context, l *driver.Release) error {
	a := d.newAttempt(l.Claim)
	defer d.giveBack(a)
	a.keep = l.Keep
	if err := d.leaver(ctx, a); err != nil {
		return err
	}
	d.claims.leaves(a.k)
	if err := d.outlived(ctx, a.k); err != nil {
		if errors.Is(err, driver.ErrGone) {
			d.claims.end(a.k, claimLost)
		}
		return err
	}
	m, how, err := move{end: endUnheld}, claimKept, error(nil)
	if a.keep > 0 {
		m, err = d.pursue(ctx, a, stays)
	}
	if err == nil && m.end == endUnheld {
		a.v, how = nil, claimGone
		m, err = d.pursue(ctx, a, leaves)
	}
	switch {
	case err != nil:
		return err
	case m.end != endLeft:
		return d.over(a, m)
	}
	d.claims.end(a.k, how)
	return nil
}

// leaver finds the key of a claim that is to leave: in the table, or in etcd if the table lacks it or the claim is to be
// kept.
func (d *Driver) leaver(ctx context.Context, a *attempt) error {
	e := d.claims.lastSeen(a.k)
	known := e != nil
	if !known || a.keep > 0 {
		var err error
		if e, err = d.find(ctx, a.c); err != nil {
			if a.k != nil && errors.Is(err, driver.ErrGone) {
				d.claims.end(a.k, claimGone)
			}
			return err
		}
	}
	if a.c.Ticket != 0 && a.c.Ticket != e.created {
		return driver.ErrGone
	}
	if !known {
		a.k = d.claims.meet(a.c, a.k, e)
	}
	return nil
}

// outlived returns [driver.ErrSession] for a claim in its lock-delay: its key is there, but the claim's lease has ended.
func (d *Driver) outlived(ctx context.Context, k *localClaim) error {
	life, on := d.claims.leases(k)
	if _, left := life.time(boottime.Now()); on == life || left > 0 {
		return nil
	}
	r, err := d.wire.client.TimeToLive(ctx, clientv3.LeaseID(life.id))
	if err != nil {
		return err
	}
	if r.TTL <= 0 {
		return driver.ErrSession
	}
	return nil
}

// Break removes a claim of any client, or a foreign key. With no ticket it removes the first of the queue.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	defer done()
	s, err := d.breaks(bounded, b)
	return s, d.wire.explain(ctx, err)
}

func (d *Driver) breaks(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	for {
		q, _, err := d.wire.readQueue(ctx, b.Name)
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		i := 0
		for b.Ticket != 0 && i < len(q) && q[i].created != b.Ticket {
			i++
		}
		if i == len(q) {
			return driver.ClaimInfo{}, driver.ErrGone
		}
		// The queue is read again together with the deletion, since claims ahead may have left meanwhile.
		r, err := d.wire.commit(ctx,
			[]clientv3.Cmp{unchanged(q[i].key, q[i].modified)},
			[]clientv3.Op{wholeQueue(d.wire.folder(b.Name)), clientv3.OpDelete(q[i].key)}, nil)
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		if r.Succeeded {
			now := queueOf(r.Responses[0].GetResponseRange().Kvs)
			return now.Standing(slices.IndexFunc(now, func(e entry) bool { return e.key == q[i].key })), nil
		}
	}
}
