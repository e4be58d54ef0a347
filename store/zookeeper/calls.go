package zookeeper

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Await waits until one of the watches fires that Enter set.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.zk.Ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	return driver.Place{}, d.recipe.Await(ctx, c.ID)
}

// Enter takes one round trip for a free lock that was in use before, and for a claim that waits and whose watches stand.
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

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) { d.recipe.Alert(endangered) }

// Renew sends one request for all claims whose nodes are watched, and one more for each claim whose node is not. A quorum
// agrees that the session lives. By then all earlier changes have arrived, including the removals of nodes.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	return d.recipe.Renew(ctx, cs)
}

// Leave removes the claim's nodes. The nodes of another client's claim are found by their names.
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
