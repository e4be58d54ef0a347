package zookeeper

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Await waits until one of the watches fires that Enter set.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	return driver.Place{}, d.await(ctx, d.waitsBy(c.ID))
}

// await waits until a watch of one local claim fires.
func (d *Driver) await(ctx context.Context, id string) error {
	d.mu.Lock()
	var b *signal
	if lc := d.localClaims[id]; lc != nil {
		b = lc.listener.signal
	}
	d.mu.Unlock()
	if b == nil {
		return driver.Ended(ctx, true)
	}
	select {
	case <-b.raised:
		d.mu.Lock()
		if lc := d.localClaims[id]; lc != nil && lc.listener.signal == b {
			lc.listener.signal = nil
		}
		d.mu.Unlock()
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-d.ctx.Done():
		return driver.ErrClosed
	}
}
