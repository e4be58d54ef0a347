package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// attempts is how often a request is sent again because a parent was removed or the session was over.
const attempts = 4

// Enter takes one round trip for a free lock that was in use before, and for a claim that waits and whose watches stand.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.zk.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	dir, err := d.zk.path(c.Name)
	if err == nil {
		err = d.shape(c)
	}
	if err != nil {
		return driver.Place{}, err
	}
	return d.recipe.enter(ctx, dir, c)
}

// enter puts a claim among the children of a path, or finds it there, in four steps with a file each. lookup.go finds a
// claim that has entered before. admit.go reads the queue for a claim that may not have to enter. apply.go makes the node.
// judge.go finds the claim's place. The ticket is that of the claim of which this one is a part, or 0.
func (k *keeper) enter(ctx context.Context, dir string, c *driver.Claim, ticket int64) (driver.Place, error) {
	lc := k.localClaimOf(c.ID)
	if lc != nil {
		p, err := k.again(ctx, c, lc)
		if !errors.Is(err, errAnew) {
			return p, err
		}
	} else if c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	var err error
	for range attempts {
		var s *wire.Session
		if s, err = k.zk.live(); err != nil {
			return driver.Place{}, err
		}
		var p driver.Place
		p, err = k.fresh(ctx, k.folder(s, dir), c, ticket)
		if !errors.Is(err, driver.ErrSession) {
			return p, err
		}
	}
	return driver.Place{}, driver.Unreachable(err)
}
