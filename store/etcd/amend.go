package etcd

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// amend changes a claim where it stands, after its lease was renewed. The claim's key is written anew, on the lease that it
// hangs on, unless somebody has changed the key since it was read; so an amendment that arrives after a later one, or after
// the claim has left, finds another revision and changes nothing. The key keeps its create revision, which is the claim's
// place and its ticket. Who waits behind it hears of its smaller weight.
func (d *Driver) amend(ctx context.Context, c *driver.Claim, k *localClaim) error {
	for {
		q, _, err := d.wire.readQueue(ctx, c.Name)
		if err != nil {
			return err
		}
		i := q.Find(c.ID)
		if i < 0 {
			return d.over(ctx, k, nil, nil)
		}
		e := &q[i]
		if !is(c, e) || e.key != k.key {
			return d.over(ctx, k, e, nil)
		}
		weight, record, err := c.Amended(e.Weight, string(e.Record), i < q.Holding())
		if err != nil || weight == e.Weight && record == string(e.Record) {
			return err
		}
		d.claims.sight(k, e)
		e.Weight, e.Record = weight, text(record)
		if err = d.rewrite(ctx, k, e); !errors.Is(err, errChanged) {
			return d.orLost(k, err)
		}
	}
}

// rewrite writes the value of a claim's key, which stays on its lease, unless the key has changed.
func (d *Driver) rewrite(ctx context.Context, k *localClaim, e *entry) error {
	text, err := e.encode()
	if err != nil {
		return driver.Refused(err)
	}
	_, on := d.claims.leases(k)
	r, err := d.change(ctx, k, e.modified, func() (*clientv3.TxnResponse, error) {
		return d.wire.commit(ctx,
			[]clientv3.Cmp{unchanged(e.key, e.modified)},
			[]clientv3.Op{clientv3.OpPut(e.key, text, clientv3.WithLease(clientv3.LeaseID(e.lease)))}, nil)
	}, on)
	switch {
	case err != nil && d.wire.revoked(ctx, err):
		return driver.ErrSession
	case err != nil:
		return err
	case !r.Succeeded:
		return errChanged
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k.modified = max(k.modified, r.Header.Revision)
	return nil
}
