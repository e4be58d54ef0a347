package stile

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// NewAsleep is New with a machine whose time asleep the test decides.
func NewAsleep(d driver.Driver, o *Options, slept func() time.Duration) (*Client, error) {
	return newClient(d, o, slept)
}

// Inner are the reasons and kinds as the keeper of claims has them, in the order of ours.
var (
	InnerReasons = []protocol.Reason{protocol.Expired, protocol.Removed, protocol.Suspended, protocol.HeldLong, protocol.Shutdown, protocol.SessionOver, protocol.Unfit, protocol.ByHand}
	InnerKinds   = []protocol.Kind{
		protocol.Acquired, protocol.Waiting, protocol.Renewed, protocol.Jeopardized, protocol.Ended, protocol.Released, claims.Asked, protocol.Displaced,
	}
)

// Turns is how many tokens a ticket is good for.
const Turns = engine.Turns

// Gates returns how many names the client has something to do with.
func (c *Client) Gates() int { return c.keeper.Names() }

// HoldStill runs f while nobody else can use a name of the client.
func (c *Client) HoldStill(name string, f func()) { c.keeper.HoldStill(name, f) }

// Beside returns how many leases of its hold the client minds.
func (l *Lease) Beside() int { return l.share.Beside() }
