package consul

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A fault is one kind of error answer. Consul has no codes for most errors, so a part of their text distinguishes them.
// Connections are kept: each HTTP request has its own answer.
type fault struct {
	status int    // 0 means any
	has    string // a part of the text; "" means any

	anonymous bool // counts only for a client without a token
	elsewhere bool // counts only for a client that names a datacenter

	says    string // comes before Consul's own words; {host} is replaced
	outcome driver.Outcome
	passes  bool // the same request may work a moment later, or at another server
}

const (
	refused = driver.OutcomeRefused // it was not applied, and never will be
	unknown = driver.OutcomeUnknown
)

const (
	noToken  = "consul does not know this token"
	noLeader = "consul has no leader at the moment"
	noNode   = "consul does not know the agent's node: it has no leader at the moment, or the node was deregistered"
	tooMuch  = "consul refuses more requests or connections from here for the moment"
)

// faults are searched in this order.
var faults = []fault{
	{has: "ACL not found", says: noToken, outcome: refused},
	{has: "token does not exist", says: noToken, outcome: refused},
	{
		status: http.StatusForbidden, anonymous: true, outcome: refused,
		says: "consul does not let a client without a token do this: put one in the URL as consul://:token@host",
	},
	{status: http.StatusForbidden, says: noRight, outcome: refused},
	{has: "Permission denied", says: noRight, outcome: refused},

	// Consul checks its limits before it does anything else.
	{status: http.StatusTooManyRequests, says: tooMuch, outcome: refused, passes: true},
	{has: "rate limit exceeded", says: tooMuch, outcome: refused, passes: true},

	// The request did not get as far as a leader.
	{
		has: "Missing node registration", elsewhere: true, outcome: refused,
		says: "consul makes sessions in the datacenter of the agent alone: use an agent of the other",
	},
	{has: "No cluster leader", says: noLeader, outcome: refused, passes: true},
	{has: "No known Consul servers", says: noLeader, outcome: refused, passes: true},
	{has: "Missing node registration", says: noNode, outcome: refused, passes: true},
	{has: "No path to datacenter", says: "consul knows no way to this datacenter", outcome: refused},

	{has: "HTTP request to an HTTPS server", says: speaksTLS, outcome: refused},
	{has: "Invalid Session TTL", says: "consul refused the request", outcome: refused},

	// A leader got the request, such as a leader that lost its leadership while it appended the request to its log.
	{status: http.StatusInternalServerError, says: "consul could not do it", outcome: unknown, passes: true},
	{status: http.StatusBadGateway, says: "consul could not do it", outcome: unknown, passes: true},
	{status: http.StatusServiceUnavailable, says: "consul could not do it", outcome: unknown, passes: true},
	{status: http.StatusGatewayTimeout, says: "consul could not do it", outcome: unknown, passes: true},
	{says: "consul refused the request", outcome: refused},
}

const (
	noRight   = "consul does not let this token do this; the package documentation of consul lists the rights"
	speaksTLS = "consul at {host} speaks TLS: use consuls:// in place of consul://"
)

// faultOf returns the first row that matches an answer. The last row matches every answer.
func faultOf(status int, text string, token, datacenter bool) *fault {
	i := slices.IndexFunc(faults, func(f fault) bool {
		return (f.status == 0 || f.status == status) && strings.Contains(text, f.has) &&
			!(f.anonymous && token) && !(f.elsewhere && !datacenter)
	})
	return &faults[i]
}
