package drivertest

import (
	"context"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestWorkIsCaught checks that a store that reads all names for a claim of one name fails the case.
func TestWorkIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		looks  func(names int) int // what a claim costs
		caught bool
	}{
		"one name":            {func(int) int { return 4 }, false},
		"an index":            {func(names int) int { return 4 + names/32 }, false},
		"all names":           {func(names int) int { return 4 + names }, true},
		"a quarter of them":   {func(names int) int { return 4 + names/4 }, true},
		"more than there are": {func(names int) int { return 4 + names*names }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Store{Open: func(testing.TB) driver.Driver { return memory.NewStore().Driver() }}
			s.Work = func(testing.TB) *Work {
				store, names, done := memory.NewStore(), map[string]bool{}, 0
				return &Work{Settle: func() {}, Done: func(int) int { return done }, Open: func() driver.Driver {
					return &buggy{Driver: store.Driver(),
						enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
							done += test.looks(len(names))
							names[c.Name] = true
							return d.Enter(ctx, c)
						},
						leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
							delete(names, l.Claim.Name)
							return d.Leave(ctx, l)
						},
					}
				}}
			}
			finds(t, "Work", s, test.caught)
		})
	}
}
