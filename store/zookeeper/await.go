package zookeeper

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Await waits until one of the watches fires that Enter set.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.zk.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	return driver.Place{}, d.recipe.await(ctx, c.ID)
}

// await waits until a watch of one local claim fires.
func (k *keeper) await(ctx context.Context, id string) error {
	k.mu.Lock()
	var b *signal
	if lc := k.localClaims[id]; lc != nil {
		b = lc.listener.signal
	}
	k.mu.Unlock()
	if b == nil {
		return driver.Ended(ctx, true)
	}
	select {
	case <-b.raised:
		k.mu.Lock()
		if lc := k.localClaims[id]; lc != nil && lc.listener.signal == b {
			lc.listener.signal = nil
		}
		k.mu.Unlock()
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-k.zk.ctx.Done():
		return driver.ErrClosed
	}
}
