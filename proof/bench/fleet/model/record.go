// Package model computes the load that a fleet of locking processes puts on a store's server. Program fleet measures the
// costs of one client, one held lock, one waiter, and one lock and unlock; this package simulates many of each.
package model

// TTL is the default ttl, used in all measurements and computations: a holder renews after each third of it.
const TTL = 15.0

// Group is how many processes of a fleet want the same name: the first one holds it, and the others wait.
const Group = 10

// A Record is the result of one run of program fleet on one store.
type Record struct {
	Store   string `json:"store"`
	Server  string `json:"server"`  // the server's name and version
	Machine string `json:"machine"` // processor, cores and system
	Date    string `json:"date"`
	Command string `json:"command"`

	Revision string `json:"revision,omitempty"` // stile's commit; empty in records from before it was noted

	Few    Parts   `json:"few"`  // as many clients as in the smallest fleet
	Many   Parts   `json:"many"` // as many as in the largest, or fewer
	Fleets []Fleet `json:"fleets"`
}

// Parts are measurements of clients that all do the same thing, except in Together.
type Parts struct {
	Clients int     `json:"clients"`
	Rate    float64 `json:"rate"`    // locks and unlocks of a client per second in Locking
	Opening float64 `json:"opening"` // the server's processor seconds to connect all clients

	Empty   Load `json:"empty"`   // a server without clients
	Idle    Load `json:"idle"`    // clients that have locked once
	Holding Load `json:"holding"` // each holds a name of its own
	Locking Load `json:"locking"` // each locks and unlocks a name of its own
	Waiting Load `json:"waiting"` // the first of each Group holds a name, and the others wait for it

	CalmRate float64 `json:"calm_rate"` // locks and unlocks of a client per second in Calm
	Calm     Load    `json:"calm"`      // like Locking, at a lower rate

	Together Load `json:"together"` // each does everything at once, and locks at [FleetRate]: only for its connections
}

// A Fleet is a measurement of clients that do everything at once.
type Fleet struct {
	Clients int     `json:"clients"`
	Rate    float64 `json:"rate"`
	Seen    Load    `json:"seen"`
}

// A Load is the server's work per second, and its resources. Less than zero means that the store does not report it.
type Load struct {
	CPU         float64 `json:"cpu"`         // processor seconds
	Received    float64 `json:"received"`    // bytes of TCP, without headers
	Sent        float64 `json:"sent"`        // the same
	Syncs       float64 `json:"syncs"`       // disk syncs
	Connections float64 `json:"connections"` // at the moment
	Memory      float64 `json:"memory"`      // bytes, at the moment
}
