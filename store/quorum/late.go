package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// leave takes a claim out of a node, by all ids that it has or had there. It is gone if it stands there by none of them. A
// lock is kept only where the claim stands by its present id, which is the one that was counted.
func (n *node) leave(ctx context.Context, store driver.Driver, c *driver.Claim, keep time.Duration) error {
	err := store.Leave(ctx, &driver.Release{Claim: n.ids.as(c, n.index), Keep: keep})
	gone := errors.Is(err, driver.ErrGone)
	left, failed := n.leaveEarlier(ctx, store, c)
	switch {
	case failed != nil && (err == nil || gone):
		return failed
	case gone && left && keep == 0:
		return nil
	}
	return err
}

// leaveEarlier takes a claim out of a node by the ids that it had. It reports whether it stood there by one of them, and the
// error of one that it may stand there by.
func (n *node) leaveEarlier(ctx context.Context, store driver.Driver, c *driver.Claim) (left bool, err error) {
	for _, e := range n.ids.earlier(c, n.index) {
		switch failed := store.Leave(ctx, &driver.Release{Claim: e}); {
		case failed == nil:
			left = true
		case !errors.Is(failed, driver.ErrGone):
			err = failed
		}
	}
	return left, err
}
