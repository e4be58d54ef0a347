package line

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// Enter puts a claim among the children of a path, or finds it there, in four steps with a file each. lookup.go finds a
// claim that has entered before. admit.go reads the queue before a try, or before a claim that reclaims. create.go makes the
// node. judge.go finds the claim's place. If the claim is a part of another claim that has a node, first is that claim's first
// node; otherwise it is zero.
func (k *Keeper) Enter(ctx context.Context, dir string, c *driver.Claim, first znode.First) (driver.Place, error) {
	lc := k.LocalClaimOf(c.ID)
	if lc != nil {
		p, err := k.enterAgain(ctx, c, lc)
		if !errors.Is(err, errAnew) {
			return p, err
		}
	} else if c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	var err error
	for range ensemble.Attempts {
		var s *wire.Session
		if s, err = k.zk.Live(); err != nil {
			return driver.Place{}, err
		}
		var p driver.Place
		p, err = k.enterNew(ctx, k.Folder(s, dir), c, first)
		if !errors.Is(err, driver.ErrSession) {
			return p, err
		}
	}
	return driver.Place{}, driver.Unreachable(err)
}
