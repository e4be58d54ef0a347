package ensemble

import (
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A fault is the meaning of a code with which a server refused a request, and so did not apply it. The table of package wire
// has each code's effect on the connection. It also has the codes after which the outcome of the request is unknown: the
// connection is dropped then, and its calls get no answer. A code in neither table is a final refusal.
type fault struct {
	says   string // {user} and {path} are replaced
	passes bool   // the same request may work a moment later, or on another server
}

var faults = map[wire.Code]fault{
	wire.NoAuth:     {"zookeeper does not let {user} do this at {path}: its access list has no such permission", false},
	wire.InvalidACL: {"zookeeper takes no access list for the creator alone from a client without user and password", false},

	// An operator must act.
	wire.Unimplemented:     {"zookeeper is too old: 3.5.3 is the oldest that will do", false},
	wire.QuotaExceeded:     {"the quota at {path} is used up", false},
	wire.TooLong:           {"the claim at {path} is longer than zookeeper takes", false},
	wire.ParentIsEphemeral: {"the node above {path} is another client's ephemeral node: use another prefix", false},
	wire.LocalSession: {
		"zookeeper keeps sessions on one server, where no lock can live: turn localSessionsUpgradingEnabled on", false,
	},

	// The server has not accepted the request.
	wire.Throttled: {"zookeeper has too many requests to do", true},
}
