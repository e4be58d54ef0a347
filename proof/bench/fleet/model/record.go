// Package model computes what a fleet of processes that lock costs a store's server. It is told what one client, one held
// lock, one waiter and one lock and unlock cost, as program fleet measures them, and simulates many of each.
package model

// TTL is the default ttl, by which all is measured and computed: a holder renews each third of it.
const TTL = 15.0

// Group is how many processes of a fleet want the same name: the first of them holds it, and the others wait.
const Group = 10

// A Record is what was measured on one store by one run of program fleet.
type Record struct {
	Store   string `json:"store"`
	Server  string `json:"server"`  // its name and version
	Machine string `json:"machine"` // processor, cores and system
	Date    string `json:"date"`
	Command string `json:"command"`

	Revision string `json:"revision,omitempty"` // of stile, by its commit; empty for what was measured before it was written down

	Few    Parts   `json:"few"`  // as many clients as the smallest fleet has
	Many   Parts   `json:"many"` // as many as the largest has, or fewer
	Fleets []Fleet `json:"fleets"`
}

// Parts are measurements of clients that all do the same, but for Together.
type Parts struct {
	Clients int     `json:"clients"`
	Rate    float64 `json:"rate"`    // locks and unlocks of a client a second in Locking
	Opening float64 `json:"opening"` // processor seconds of the server to connect all clients

	Empty   Load `json:"empty"`   // a server without clients
	Idle    Load `json:"idle"`    // clients that have locked once
	Holding Load `json:"holding"` // each holds a name of its own
	Locking Load `json:"locking"` // each locks and unlocks a name of its own
	Waiting Load `json:"waiting"` // of each Group the first holds a name, and the others wait for it

	CalmRate float64 `json:"calm_rate"` // that of Calm
	Calm     Load    `json:"calm"`      // as Locking, at a lower rate

	Together Load `json:"together"` // each does all of that at once, and locks at [FleetRate]: for its connections alone
}

// A Fleet is a measurement of clients that do all of that at once.
type Fleet struct {
	Clients int     `json:"clients"`
	Rate    float64 `json:"rate"`
	Seen    Load    `json:"seen"`
}

// A Load is what the server does in a second, and has. What the store does not tell is less than zero.
type Load struct {
	CPU         float64 `json:"cpu"`         // processor seconds
	Received    float64 `json:"received"`    // bytes of TCP, without headers
	Sent        float64 `json:"sent"`        // the same
	Syncs       float64 `json:"syncs"`       // of the disk
	Connections float64 `json:"connections"` // now
	Memory      float64 `json:"memory"`      // bytes, now
}
