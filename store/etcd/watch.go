package etcd

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Watch takes one watch of etcd's client library, on the stream that all its watches share.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	for {
		if err := d.watch(ctx, name, changed); err != nil {
			return err
		}
	}
}

// watch reports changes from now on. It returns nil if etcd ended the watch since the changes were compacted. The next watch
// begins with the present queue.
func (d *Driver) watch(ctx context.Context, name string, changed func()) error {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return err
	}
	folder := d.wire.folder(name)
	r, err := d.wire.read(bounded, clientv3.OpGet(folder, clientv3.WithPrefix(), clientv3.WithCountOnly()))
	done()
	if err != nil {
		return d.wire.explain(ctx, err)
	}
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	defer context.AfterFunc(d.ctx, stop)()
	events := d.wire.client.Watch(watching, folder, clientv3.WithPrefix(), clientv3.WithRev(r.Header.Revision+1))
	changed()
	for r := range events {
		if err := r.Err(); err != nil {
			if r.CompactRevision != 0 {
				return nil
			}
			if ctx.Err() == nil {
				return d.wire.explain(ctx, err)
			}
			break
		}
		changed()
	}
	switch {
	case d.ctx.Err() != nil:
		return driver.ErrClosed
	case ctx.Err() != nil:
		return driver.Ended(ctx, true)
	}
	return driver.Unreachable(errors.New("etcd ended the watch"))
}
