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
func (k *keeper) overlook(ctx context.Context, dir string, b *signal) ([]*wire.Call, error) {
	s, err := k.zk.live()
	if err != nil {
		return nil, err
	}
	list := wire.List(dir, wire.NewWatch(b.raise))
	watches := []*wire.Call{list}
	if err := k.zk.do(ctx, s, list); err != nil {
		return watches, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		// If the node comes meanwhile, its first claim is a change all the same.
		list = wire.Exists(dir, wire.NewWatch(b.raise))
		if err := k.zk.do(ctx, s, list); err != nil {
			return nil, err
		}
		if list.Err == nil {
			b.raise()
		}
		return []*wire.Call{list}, nil
	}
	if list.Err != nil {
		return nil, k.zk.refused(dir, list.Err)
	}
	q, odd := k.layoutOf(dir).newQueue(list.Children)
	k.zk.strange(dir, odd)
	for _, n := range q[:q.Holding()] {
		watches = append(watches, wire.Get(dir+"/"+n.name, wire.NewWatch(b.raise)))
	}
	if len(watches) == 1 {
		return watches, nil
	}
	err = k.zk.do(ctx, s, watches[1:]...)
	for _, c := range watches[1:] {
		if c.Err != nil {
			b.raise()
		}
	}
	return watches, err
}
