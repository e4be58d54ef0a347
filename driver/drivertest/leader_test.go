package drivertest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestLateLeaderIsCaught checks that the case finds a replaced leader that removes claims when it goes on, and passes a
// correct store.
func TestLateLeaderIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ takes, entered, shares, caught bool }{
		"all is well":                               {},
		"it ends the claims that hold or wait":      {takes: true, caught: true},
		"it ends the claims that entered once more": {entered: true, caught: true},
		"it lets others in":                         {shares: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, other := memory.NewStore(), memory.NewStore()
			s := Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
			s.Succession = func(testing.TB) *Succession {
				var late atomic.Bool
				return &Succession{
					Succeeds: func() {}, GoesOn: func() { late.Store(true) },
					Open: func() driver.Driver {
						return &buggy{Driver: store.Driver(),
							renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
								if late.Load() && (test.takes && len(cs) > 1 || test.entered && len(cs) == 1) {
									answers := make([]driver.Renewal, len(cs))
									for i := range answers {
										answers[i].Err = driver.ErrGone
									}
									return answers
								}
								return d.Renew(ctx, cs)
							},
							enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
								if late.Load() && c.Try && test.shares {
									d = other.Driver()
								}
								return d.Enter(ctx, c)
							},
						}
					},
				}
			}
			finds(t, "LateLeader", s, test.caught)
		})
	}
}
