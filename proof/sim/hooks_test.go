package sim_test

import (
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/hooks"
)

// newAsleep is stile.New on a machine whose time asleep the test controls.
func newAsleep(d driver.Driver, o *stile.Options, slept func() time.Duration) (*stile.Client, error) {
	return hooks.NewAsleep.(func(driver.Driver, *stile.Options, func() time.Duration) (*stile.Client, error))(d, o, slept)
}

// names returns the number of names for which a client has work.
func names(p *peer) int { return hooks.Names.(func(*stile.Client) int)(p.Client) }

// beside returns the number of leases of its hold that a client tracks.
func beside(l *stile.Lease) int { return hooks.Beside.(func(*stile.Lease) int)(l) }
