package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// leave takes a claim out of a node, by all ids that it has or had there. The error is ErrGone if the node has it by none of
// them. Only an entry by the present id, for which votes were counted, can be kept.
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

// leaveEarlier takes a claim out of a node by its earlier ids. It reports whether the node had the claim by one of them. The
// error is about an id by which the node may still have the claim.
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
