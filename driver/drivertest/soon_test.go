package drivertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestWhatStaysIsCaught checks that a claim that has left may block for a moment, if the store declares Halfway and has no
// order, and no longer.
func TestWhatStaysIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stays                    time.Duration
		halfway, ordered, caught bool
	}{
		"for a moment":                    {stays: 200 * time.Millisecond, halfway: true},
		"for longer":                      {stays: 2 * time.Second, halfway: true, caught: true},
		"for a moment, of which no word":  {stays: 200 * time.Millisecond, caught: true},
		"for a moment, though it is next": {stays: 200 * time.Millisecond, halfway: true, ordered: true, caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				finds(t, "LeaveFrees", Store{Halfway: test.halfway, Open: func(testing.TB) driver.Driver {
					return &buggy{
						Driver: store.Driver(),
						leave: func(_ context.Context, d *memory.Driver, l *driver.Release) error {
							time.AfterFunc(test.stays, func() { _ = d.Leave(context.Background(), l) })
							return nil
						},
						traits: func(t *driver.Traits) { t.Ordered = test.ordered },
					}
				}}, test.caught)
				<-time.After(test.stays)
				synctest.Wait()
			})
		})
	}
}
