package drivertest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestLostAnswerIsCaught checks that a call without an answer is excused if the store is slow for all clients, and fails the
// case if only one driver lost its answer.
func TestLostAnswerIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ all, caught bool }{
		"the store has no answer for anybody": {all: true},
		"one driver loses an answer":          {caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, until := memory.NewStore(), time.Now().Add(2*askOthers)
				var asked atomic.Bool
				s := Store{Open: func(testing.TB) driver.Driver {
					return &buggy{Driver: store.Driver(), enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
						lost := asked.CompareAndSwap(false, true)
						if lost || test.all {
							time.Sleep(time.Until(until))
						}
						if lost {
							return driver.Place{}, driver.Unreachable(errors.New("no answer"))
						}
						return d.Enter(ctx, c)
					}}
				}}
				finds(t, "EnterAgain", s, test.caught)
			})
		})
	}
}

// TestLostLeaveIsNotBlamed checks that no case fails if a Leave removes the claim and loses its answer.
func TestLostLeaveIsNotBlamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left atomic.Int64
		store := memory.NewStore()
		finds(t, "AwaitWhileOthersComeAndGo", Store{Open: func(testing.TB) driver.Driver {
			return &buggy{Driver: store.Driver(), leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				if err := d.Leave(ctx, l); err != nil || left.Add(1)%7 != 0 {
					return err
				}
				return driver.Unreachable(errors.New("no answer"))
			}}
		}}, false)
	})
}
