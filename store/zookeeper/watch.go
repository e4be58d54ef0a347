package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Watch watches the lock's children, and the nodes of the claims that hold, since their data say when a claim is kept.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	dir, err := d.zk.path(name)
	if err != nil {
		return err
	}
	for {
		b := newSignal()
		watches, err := d.recipe.overlook(ctx, dir, b)
		if errors.Is(err, driver.ErrSession) {
			continue // the next look begins a new one
		}
		if err != nil {
			return err
		}
		changed()
		select {
		case <-b.raised:
		case <-ctx.Done():
			err = driver.Ended(ctx, true)
		case <-d.zk.ctx.Done():
			err = driver.ErrClosed
		}
		for _, c := range watches {
			c.Unwatch()
		}
		if err != nil {
			return err
		}
	}
}

// overlook raises a signal when a queue changes, and returns the calls with the watches.
func (f *folder) overlook(ctx context.Context, b *signal) ([]*wire.Call, error) {
	list := wire.List(f.dir, wire.NewWatch(b.raise))
	watches := []*wire.Call{list}
	if err := f.zk.do(ctx, f.session, list); err != nil {
		return watches, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		// If the node comes meanwhile, its first claim is a change all the same.
		list = wire.Exists(f.dir, wire.NewWatch(b.raise))
		if err := f.zk.do(ctx, f.session, list); err != nil {
			return nil, err
		}
		if list.Err == nil {
			b.raise()
		}
		return []*wire.Call{list}, nil
	}
	if list.Err != nil {
		return nil, f.zk.refused(f.dir, list.Err)
	}
	q, odd := f.layout.newQueue(list.Children)
	f.zk.strange(f.dir, odd)
	for _, n := range q[:q.Holding()] {
		watches = append(watches, wire.Get(f.dir+"/"+n.name, wire.NewWatch(b.raise)))
	}
	if len(watches) == 1 {
		return watches, nil
	}
	err := f.zk.do(ctx, f.session, watches[1:]...)
	for _, c := range watches[1:] {
		if c.Err != nil {
			b.raise()
		}
	}
	return watches, err
}
