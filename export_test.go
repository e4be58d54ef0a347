package stile

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// NewAsleep is New with a machine whose time asleep the test decides.
func NewAsleep(d driver.Driver, o *Options, slept func() time.Duration) (*Client, error) {
	return newClient(d, o, slept)
}

// Inner are the reasons and kinds as the keeper of claims has them, in the order of ours.
var (
	InnerReasons = []claims.Reason{claims.Expired, claims.Removed, claims.Suspended, claims.HeldLong, claims.Shutdown, claims.SessionOver}
	InnerKinds   = []claims.Kind{claims.Acquired, claims.Waiting, claims.Renewed, claims.Jeopardized, claims.Ended, claims.Released}
)

// Turns is how many tokens a ticket is good for.
const Turns = claims.Turns

// Gates returns how many names the client has something to do with.
func (c *Client) Gates() int { return c.keeper.Gates() }
