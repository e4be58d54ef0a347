package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// attempts is how often a request is made anew that met a parent which was removed, or a session that was over.
const attempts = 4

// Enter is one round trip for a lock that was in use before and is free, or for a claim that waits and is watched.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	dir, err := d.path(c.Name)
	if err == nil {
		err = d.shape(c)
	}
	if err != nil {
		return driver.Place{}, err
	}
	if d.layout == semaphoreLayout {
		return d.enterSemaphore(ctx, dir, c)
	}
	return d.enter(ctx, dir, c)
}

// enter puts a claim among the children of a path, or finds it there, in four steps that have a file each. lookup.go finds
// a claim that has entered before. admit.go looks first where a claim may not have to enter. apply.go makes its node.
// judge.go tells where it stands.
func (d *Driver) enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	lc := d.localClaimOf(c.ID)
	if lc != nil {
		p, err := d.again(ctx, c, lc)
		if !errors.Is(err, errAnew) {
			return p, err
		}
	} else if c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	var err error
	for range attempts {
		var s *wire.Session
		if s, err = d.live(); err != nil {
			return driver.Place{}, err
		}
		var p driver.Place
		p, err = d.fresh(ctx, s, dir, c)
		if !errors.Is(err, driver.ErrSession) {
			return p, err
		}
	}
	return driver.Place{}, driver.Unreachable(err)
}
