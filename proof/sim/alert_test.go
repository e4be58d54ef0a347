package sim_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// An alarming driver raises a false alarm for each claim that enters, and refuses every third Enter with ErrSession.
type alarming struct {
	*memory.Driver
	alert   func(...string)
	entered atomic.Int64
	crying  sync.WaitGroup
}

func (a *alarming) Alert(endangered func(...string)) { a.alert = endangered }

func (a *alarming) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	id := c.ID
	a.crying.Go(func() { a.alert(id, "of nobody") })
	if a.entered.Add(1)%3 == 0 {
		return driver.Place{}, driver.ErrSession
	}
	return a.Driver.Enter(ctx, c)
}

// Any goroutine may call Alert, also while a waiter starts again with another id.
func TestAlertBesideAWaiterThatBeginsAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		var d *alarming
		a := w.over(nil, func(m *memory.Driver) driver.Driver {
			d = &alarming{Driver: m}
			return d
		})
		pass(time.Minute)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 30 {
					err := a.Mutex("x").Do(w.Context(), func(context.Context) error {
						<-time.After(5 * time.Millisecond) // the turn is over: the next one enters again
						return nil
					})
					if err != nil {
						w.Error(err)
					}
				}
			})
		}
		all.Wait()
		d.crying.Wait()
	})
}
