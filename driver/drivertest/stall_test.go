package drivertest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestStallIsCaught checks that the case finds a stopped client that has the store's only connection, and passes one that
// has only a name.
func TestStallIsCaught(t *testing.T) {
	t.Parallel()
	for _, bug := range []bool{true, false} {
		var (
			store = memory.NewStore()
			one   = make(chan struct{}, 1) // the store's only connection
			s     = Store{Open: func(testing.TB) driver.Driver {
				return &buggy{Driver: store.Driver(),
					renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
						select {
						case one <- struct{}{}:
							<-one
							return d.Renew(ctx, cs)
						case <-ctx.Done():
							all := make([]driver.Renewal, len(cs))
							for i := range all {
								all[i].Err = driver.Ended(ctx, false)
							}
							return all
						}
					}}
			}}
		)
		s.Stall = func(testing.TB) *Stalled {
			var still atomic.Bool
			on := make(chan struct{})
			d := &buggy{Driver: store.Driver(),
				enter: func(ctx context.Context, _ *memory.Driver, _ *driver.Claim) (driver.Place, error) {
					if bug {
						one <- struct{}{}
						defer func() { <-one }()
					}
					still.Store(true)
					select {
					case <-on:
					case <-ctx.Done():
					}
					return driver.Place{}, driver.Ended(ctx, true)
				}}
			return &Stalled{Driver: d, After: func(int) {}, Still: still.Load, Pass: func() { close(on) }}
		}
		finds(t, "StallOthers", s, bug)
	}
}
