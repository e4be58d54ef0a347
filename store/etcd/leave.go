package etcd

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leave is one request for a claim that entered by this driver.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return d.wire.explain(ctx, d.leave(bounded, l))
}

func (d *Driver) leave(ctx context.Context, l *driver.Release) error {
	c, k := l.Claim, d.claims.of(l.Claim.ID)
	e := d.claims.lastSeen(k)
	known := e != nil
	if !known || l.Keep > 0 {
		var err error
		if e, err = d.find(ctx, c); err != nil {
			if k != nil && errors.Is(err, driver.ErrGone) {
				d.claims.end(k, claimGone)
			}
			return err
		}
	}
	if c.Ticket != 0 && c.Ticket != e.created {
		return driver.ErrGone
	}
	if !known {
		k = d.claims.meet(c, e)
	}
	d.claims.leaves(k)
	if err := d.outlived(ctx, k); err != nil {
		return d.orLost(k, err)
	}
	if l.Keep > 0 {
		return d.keep(ctx, l, k)
	}
	return d.removed(k, d.erase(ctx, c, k, e))
}

// erase is remove together with what other claims ask for. Mostly nobody has changed the key, which another client does
// only to keep it. A plain deletion would free such a lock too early. It costs etcd and its client 25 µs less, of the 500
// that a lock and unlock takes with both on one core.
func (d *Driver) erase(ctx context.Context, c *driver.Claim, k *localClaim, e *entry) error {
	r, err := d.change(ctx, k, e.modified, func() (*clientv3.TxnResponse, error) {
		return d.batch.do(ctx, d.wire.folder(k.name),
			[]clientv3.Cmp{unchanged(e.key, e.modified)}, []clientv3.Op{clientv3.OpDelete(e.key)}, nil)
	})
	if err == nil && !r.Succeeded || errors.Is(err, errFull) { // which is meant for a claim that was to enter at the same time
		return d.remove(ctx, c, k, e)
	}
	return err
}

// outlived returns [driver.ErrSession] for a claim in its lock-delay: its key is there, but its lease is no more.
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

// remove deletes the key of a claim as it was when it was last seen, or as it is. The error
// is [driver.ErrGone] if it is another's or is kept.
func (d *Driver) remove(ctx context.Context, c *driver.Claim, k *localClaim, e *entry) error {
	for {
		r, err := d.change(ctx, k, e.modified, func() (*clientv3.TxnResponse, error) {
			return d.wire.commit(ctx,
				[]clientv3.Cmp{unchanged(e.key, e.modified)},
				[]clientv3.Op{clientv3.OpDelete(e.key)},
				[]clientv3.Op{clientv3.OpGet(e.key)})
		})
		if err != nil {
			return err
		}
		if r.Succeeded {
			return nil
		}
		now := only(r.Responses[0].GetResponseRange().Kvs)
		if now == nil || now.created != e.created || !is(c, now) {
			return d.over(ctx, k, now, nil)
		}
		e = now
	}
}

// keep marks a claim that holds as one that left, and hangs it on a lease that nobody keeps alive. One that waits
// leaves.
func (d *Driver) keep(ctx context.Context, l *driver.Release, k *localClaim) error {
	for {
		q, _, err := d.wire.readQueue(ctx, l.Claim.Name)
		if err != nil {
			return err
		}
		i := q.Find(l.Claim.ID)
		if i < 0 || !is(l.Claim, &q[i]) {
			return d.removed(k, driver.ErrGone)
		}
		e := &q[i]
		if i >= q.Holding() {
			return d.removed(k, d.remove(ctx, l.Claim, k, e))
		}
		short, err := d.pool.grant(ctx, d.pool.seconds(l.Keep))
		if err != nil {
			return err
		}
		e.Left = true
		life, _ := d.claims.leases(k)
		if _, err = d.move(ctx, k, e, life, short); err == nil {
			d.claims.end(k, claimKept)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		// Another request for the same claim came between, such as one that hung the key on its longer lease.
	}
}

// removed ends a claim that is out of etcd.
func (d *Driver) removed(k *localClaim, err error) error {
	if err == nil || errors.Is(err, driver.ErrGone) {
		d.claims.end(k, claimGone)
	}
	return err
}

// Break removes a claim, whoever made it.
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
		// The queue is read once more with the deletion, since those ahead may have left meanwhile.
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
