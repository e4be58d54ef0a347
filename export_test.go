package stile

import (
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// Inner are the reasons and kinds of package claims, in the order of ours.
var (
	InnerReasons = []protocol.Reason{protocol.Expired, protocol.Removed, protocol.Suspended, protocol.HeldLong, protocol.Shutdown, protocol.SessionOver, protocol.Unfit, protocol.ByHand}
	InnerKinds   = []protocol.Kind{
		protocol.Acquired, protocol.Waiting, protocol.Renewed, protocol.Jeopardized, protocol.Ended, protocol.Released, claims.Asked, protocol.Displaced,
	}
)

// HoldStill runs f while no other goroutine can use a name of the client.
func (c *Client) HoldStill(name string, f func()) { c.keeper.HoldStill(name, f) }
