package etcd

import (
	"context"

	"github.com/stilelock/stile/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// find reads the entry of a claim from etcd. It fails with [driver.ErrGone] if there is none, or if the claim has left.
func (d *Driver) find(ctx context.Context, c *driver.Claim) (*entry, error) {
	options := []clientv3.OpOption{clientv3.WithPrefix()}
	if c.Ticket > 0 {
		options = append(options, clientv3.WithMinCreateRev(c.Ticket), clientv3.WithMaxCreateRev(c.Ticket))
	}
	r, err := d.wire.read(ctx, clientv3.OpGet(d.wire.folder(c.Name), options...))
	if err != nil {
		return nil, err
	}
	q := queueOf(r.Responses[0].GetResponseRange().Kvs)
	if i := q.Find(c.ID); i >= 0 && is(c, &q[i]) {
		return &q[i], nil
	}
	return nil, driver.ErrGone
}
