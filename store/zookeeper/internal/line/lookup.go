package line

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// errAnew says that a claim is not in the store, and that its client never learned that it was: the claim enters again.
var errAnew = errors.New("the claim enters as if for the first time")

// enterAgain returns the place of a claim that has entered before.
func (k *Keeper) enterAgain(ctx context.Context, c *driver.Claim, lc *LocalClaim) (driver.Place, error) {
	k.mu.Lock()
	err := k.verdictLocked(lc)
	follows := err == nil && lc.followsLocked()
	k.mu.Unlock()
	var p driver.Place
	switch {
	case follows:
		if p, err = k.notePlace(c, lc, 0, true, false); err == nil {
			return p, nil
		}
	case err == nil:
		if p, err = k.find(ctx, c, lc); !errors.Is(err, driver.ErrGone) {
			return p, err
		}
	}
	return driver.Place{}, k.clear(ctx, c, lc, err)
}

// find returns the place of a claim if its node was made, and otherwise ErrGone.
func (k *Keeper) find(ctx context.Context, c *driver.Claim, lc *LocalClaim) (driver.Place, error) {
	stands, err := k.settle(ctx, lc)
	if err != nil {
		return driver.Place{}, err
	}
	if !stands {
		k.forget(lc)
		return driver.Place{}, driver.ErrGone
	}
	p, err := k.readPlace(ctx, c, lc, false)
	if errors.Is(err, errUnproven) {
		p, err = k.readPlace(ctx, c, lc, true)
	}
	return p, err
}

// clear returns why a claim is gone, or errAnew if it may enter again. In the second case nothing of the claim is left. Its
// lease may have run out a moment ago, while the driver looked for its node; then clear removes the node. For the claim
// enters with the same id, and takes the entry in the table by which the janitor would find that node.
func (k *Keeper) clear(ctx context.Context, c *driver.Claim, lc *LocalClaim, gone error) error {
	k.mu.Lock()
	if errors.Is(gone, driver.ErrSession) {
		lc.becomeLocked(claimOver, driver.ErrSession)
	}
	if lc.lease.state == claimOver {
		k.forgetLocked(lc)
	}
	known, left := c.Ticket != 0 || lc.lease.state == claimKept, lc.lease.mustGo()
	k.mu.Unlock()
	if known {
		return gone
	}
	if left {
		if _, err := k.remove(ctx, lc); err != nil {
			return err
		}
		k.forget(lc)
	}
	return errAnew
}

// readPlace returns the place of a claim whose node most likely exists. If proven is false, and the server does not show the
// node, the error is errUnproven.
func (k *Keeper) readPlace(ctx context.Context, c *driver.Claim, lc *LocalClaim, proven bool) (driver.Place, error) {
	list := wire.List(lc.dir, nil)
	calls := []*wire.Call{list}
	k.mu.Lock()
	inspect := (*wire.Call)(nil)
	if lc.unseenLocked() {
		inspect = k.janitor.inspectLocked(lc)
		calls = append(calls, inspect)
	}
	k.mu.Unlock()
	if proven {
		calls = k.zk.Proven(calls...)
	}
	if err := k.zk.Do(ctx, lc.Session, calls...); err != nil {
		return driver.Place{}, err
	}
	if inspect != nil {
		if err := k.present(lc, inspect, proven); err != nil {
			return driver.Place{}, err
		}
	}
	return k.judge(ctx, c, lc, list, false, proven)
}

// present is inspectedLocked for a claim that asks for its place. It forgets a claim that is certainly gone, but not a claim
// whose lease ran out meanwhile, since the node of that claim still exists.
func (k *Keeper) present(lc *LocalClaim, inspect *wire.Call, proven bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.janitor.inspectedLocked(lc, inspect, proven)
	if lc.lease.state == claimOver {
		k.forgetLocked(lc)
	}
	return err
}
