package zookeeper

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Await waits until a watch fires that Enter has set. The place is always zero: the caller enters again.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.zk.Ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	return driver.Place{}, d.recipe.Await(ctx, c.ID)
}

// Enter puts a claim into the queue of its name, or finds it there. It takes one round trip if the lock is free and its
// parent exists, and one for a claim that waits and whose watches stand.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.zk.Ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	dir, err := d.zk.Path(c.Name)
	if err == nil {
		err = d.shape(c)
	}
	if err != nil {
		return driver.Place{}, err
	}
	return d.recipe.Enter(ctx, dir, c)
}

// Alert implements [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) { d.recipe.Alert(endangered) }

// Renew sends one request to which a quorum must agree, and one more for each claim whose node is not watched. The agreement
// shows that the session lives. The server reports all earlier changes before it answers, so a watched node still exists if
// its watch stands then.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	return d.recipe.Renew(ctx, cs)
}

// Leave removes the claim's nodes, or marks them as kept. It finds the nodes of another client's claim by their names.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	if d.zk.Ctx.Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	dir, err := d.zk.Path(l.Claim.Name)
	if err != nil {
		return err
	}
	return d.recipe.Leave(ctx, dir, l)
}
