package etcd

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// askAgain is how long Await waits where it has nothing to wait for.
const askAgain = 100 * time.Millisecond

// Await costs no request: the claim hears of the keys that are deleted, and knows which are ahead of it.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d.mu.Lock()
	if d.ctx.Err() != nil {
		d.mu.Unlock()
		return driver.Place{}, driver.ErrClosed
	}
	k := d.known[c.ID]
	switch {
	case k == nil || !k.placed():
		d.mu.Unlock()
		return driver.Place{}, d.pause(ctx)
	case k.ear == deaf:
		d.mu.Unlock()
		return driver.Place{}, nil // to enter again is to begin anew
	case k.ear == informed:
		if f := d.joinLocked(k); f.heard > k.seen {
			d.unfollowLocked(k)
			d.mu.Unlock()
			return driver.Place{}, nil // something was told to others before this claim listened
		}
	}
	turn := k.turn
	p, settled := k.ready(c)
	d.mu.Unlock()
	if settled {
		return p, nil
	}
	select {
	case <-turn:
		d.mu.Lock()
		defer d.mu.Unlock()
		p, _ := k.ready(c)
		return p, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-d.ctx.Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// ready tells what a claim knows by what it has heard, and whether that is anything to tell. One with a lock-delay is
// not told that it holds before its key hangs on the longer lease, which entering again sees to.
func (k *claim) ready(c *driver.Claim) (p driver.Place, settled bool) {
	switch {
	case k.ear != hearing || !k.placed() || k.state == claimDeleted:
		return p, true
	case k.over > 0:
		return p, false
	case c.Delay > 0:
		return p, true
	}
	k.become(claimHolding)
	return driver.Place{Ticket: k.created, Holds: true}, true
}

// pause waits a moment, for claims that entered by another driver.
func (d *Driver) pause(ctx context.Context) error {
	moment := time.NewTimer(askAgain)
	defer moment.Stop()
	select {
	case <-moment.C:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-d.ctx.Done():
		return driver.ErrClosed
	}
}
