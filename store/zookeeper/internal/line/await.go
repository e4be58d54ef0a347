package line

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Await waits until a watch of a local claim fires. It returns at once if the claim has no watches.
func (k *Keeper) Await(ctx context.Context, id string) error {
	k.mu.Lock()
	var b *Signal
	if lc := k.localClaims[id]; lc != nil {
		b = lc.listener.signal
	}
	k.mu.Unlock()
	if b == nil {
		return driver.Ended(ctx, true)
	}
	select {
	case <-b.Raised:
		k.mu.Lock()
		if lc := k.localClaims[id]; lc != nil && lc.listener.signal == b {
			lc.listener.signal = nil
		}
		k.mu.Unlock()
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-k.zk.Ctx.Done():
		return driver.ErrClosed
	}
}
