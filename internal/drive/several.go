package drive

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

// Several makes the parts of a [drivertest.Several] for a store over other stores, which are its servers: open makes a
// client of the store from a client of each. Spare implements [drivertest.Several].
func Several(
	servers, spare int, of func(t testing.TB) (open func(server int) driver.Driver), over func(t testing.TB,
		servers []driver.Driver) driver.Driver,
) func(t testing.TB) *drivertest.Several {
	return func(t testing.TB) *drivertest.Several {
		down, open := make([]atomic.Bool, servers), of(t)
		return &drivertest.Several{
			Servers: servers, Spare: spare,
			Down: func(server int) { down[server].Store(true) },
			Up:   func(server int) { down[server].Store(false) },
			Open: func() driver.Driver {
				var all []driver.Driver
				for i := range servers {
					all = append(all, &reached{open(i), &down[i]})
				}
				return over(t, all)
			},
		}
	}
}

// A reached is a client of a server that may be out of reach.
type reached struct {
	driver.Driver
	down *atomic.Bool
}

func (d *reached) err() error {
	if d.down.Load() {
		return driver.Unsent(driver.Unreachable(errors.New("no connection")))
	}
	return nil
}

func (d *reached) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := d.err(); err != nil {
		return driver.Place{}, err
	}
	return d.Driver.Enter(ctx, c)
}

func (d *reached) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := d.err(); err != nil {
		return driver.Place{}, err
	}
	return d.Driver.Await(ctx, c)
}

func (d *reached) Renew(ctx context.Context, claims []*driver.Claim) []driver.Renewal {
	err := d.err()
	if err == nil {
		return d.Driver.Renew(ctx, claims)
	}
	all := make([]driver.Renewal, len(claims))
	for i := range all {
		all[i].Err = err
	}
	return all
}

func (d *reached) Leave(ctx context.Context, l *driver.Release) error {
	if err := d.err(); err != nil {
		return err
	}
	return d.Driver.Leave(ctx, l)
}
