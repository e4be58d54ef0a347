package sim_test

import (
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/hooks"
)

// newAsleep is stile.New with a machine whose time asleep the test decides.
func newAsleep(d driver.Driver, o *stile.Options, slept func() time.Duration) (*stile.Client, error) {
	return hooks.NewAsleep.(func(driver.Driver, *stile.Options, func() time.Duration) (*stile.Client, error))(d, o, slept)
}

// names returns how many names a client has something to do with.
func names(p *peer) int { return hooks.Names.(func(*stile.Client) int)(p.Client) }

// beside returns how many leases of its hold a client minds.
func beside(l *stile.Lease) int { return hooks.Beside.(func(*stile.Lease) int)(l) }
