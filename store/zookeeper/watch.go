package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/line"
)

// Watch watches the children of the lock, and the nodes of the claims that hold: their data show when a claim is kept.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	dir, err := d.zk.Path(name)
	if err != nil {
		return err
	}
	for {
		b := line.NewSignal()
		watches, err := d.recipe.Overlook(ctx, dir, b)
		if errors.Is(err, driver.ErrSession) {
			continue // the next look begins a new session
		}
		if err != nil {
			return err
		}
		changed()
		select {
		case <-b.Raised:
		case <-ctx.Done():
			err = driver.Ended(ctx, true)
		case <-d.zk.Ctx.Done():
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
