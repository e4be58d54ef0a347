package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Watch watches the lock's children, and the nodes of the claims that hold, since their data say when a claim is kept.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	dir, err := d.path(name)
	if err != nil {
		return err
	}
	for {
		b := newSignal()
		watches, err := d.overlookAll(ctx, dir, b)
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
		case <-d.ctx.Done():
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

// overlookAll raises a signal when the queue of a name changes, under any of its parents.
func (d *Driver) overlookAll(ctx context.Context, dir string, b *signal) ([]*wire.Call, error) {
	if d.layout != semaphoreLayout {
		return d.overlook(ctx, dir, b)
	}
	watches, err := d.overlook(ctx, dir+locksDir, b)
	if err != nil {
		return watches, err
	}
	more, err := d.overlook(ctx, dir+leasesDir, b)
	return append(watches, more...), err
}

// overlook raises a signal when a queue changes, and returns the calls with the watches.
func (d *Driver) overlook(ctx context.Context, dir string, b *signal) ([]*wire.Call, error) {
	s, err := d.live()
	if err != nil {
		return nil, err
	}
	list := wire.List(dir, wire.NewWatch(b.raise))
	watches := []*wire.Call{list}
	if err := d.do(ctx, s, list); err != nil {
		return watches, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		// If the node comes meanwhile, its first claim is a change all the same.
		list = wire.Exists(dir, wire.NewWatch(b.raise))
		if err := d.do(ctx, s, list); err != nil {
			return nil, err
		}
		if list.Err == nil {
			b.raise()
		}
		return []*wire.Call{list}, nil
	}
	if list.Err != nil {
		return nil, d.refused(dir, list.Err)
	}
	q, odd := d.layoutOf(dir).newQueue(list.Children)
	d.strange(dir, odd)
	for _, n := range q[:q.Holding()] {
		watches = append(watches, wire.Get(dir+"/"+n.name, wire.NewWatch(b.raise)))
	}
	if len(watches) == 1 {
		return watches, nil
	}
	err = d.do(ctx, s, watches[1:]...)
	for _, c := range watches[1:] {
		if c.Err != nil {
			b.raise()
		}
	}
	return watches, err
}
