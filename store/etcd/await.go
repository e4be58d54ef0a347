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
	k := d.claims.known[c.ID]
	switch {
	case k == nil || !k.entered() || k.state == claimFound:
		d.mu.Unlock()
		return driver.Place{}, d.pause(ctx)
	case k.knows == deaf:
		d.mu.Unlock()
		return driver.Place{}, nil // to enter again is to begin anew
	case k.knows == informed:
		if w := d.watches.joinLocked(k); w.heard > k.seen {
			// Something was told to others after this claim had read the queue, and before it listened.
			d.watches.unsubscribeLocked(k)
			d.mu.Unlock()
			return driver.Place{}, nil
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
func (k *localClaim) ready(c *driver.Claim) (p driver.Place, settled bool) {
	switch {
	case k.knows != hearing || k.state == claimDeleted || k.state == claimFound:
		return p, true // of one that was only found, it is not known what is ahead
	case k.over > 0 || k.state == claimLeaving:
		return p, false
	case c.Delay > 0:
		return p, true
	}
	if k.become(claimHolding); k.state != claimHolding {
		return p, true
	}
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
