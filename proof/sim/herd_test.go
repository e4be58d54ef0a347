package sim_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// When a holder's lease runs out, the next client asks, and not every waiting client: none of the others could hold.
func TestLeaseEndsForOne(t *testing.T) {
	const waiters, ttl = 200, 6 * time.Second // waiters ask each 4 s as well, to keep their places
	inWorld(t, func(w *world) {
		brief := &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}}
		holder := w.join(brief)
		lost := w.lock(holder.Mutex("x"))
		holder.d.SetLink(memory.Silent)
		ctx, cancel := context.WithCancel(w.Context())
		var (
			all   sync.WaitGroup
			holds atomic.Int64
		)
		for range waiters {
			p := w.join(brief)
			all.Go(func() {
				if lease, err := p.Mutex("x").Lock(ctx); err == nil {
					holds.Add(1)
					<-ctx.Done()
					w.unlock(lease)
				}
			})
			pass(time.Millisecond) // so that the clients ask in the order of the queue
		}
		enters := func() (n int) {
			for _, p := range w.clients {
				n += p.d.Calls(memory.Enter)
			}
			return n
		}
		pass(ttl - waiters*time.Millisecond - 100*time.Millisecond)
		before := enters()
		pass(200 * time.Millisecond)
		if got := enters() - before; got > 1 {
			w.Errorf("%d of %d waiters ask when the lease ends; want at most 1", got, waiters)
		}
		if holds.Load() != 1 {
			w.Errorf("%d of the waiters have the lock; want one", holds.Load())
		}
		cancel()
		all.Wait()
		holder.d.Heal()
		w.unlockLost(lost)
	})
}
