// Package hooks lets the simulations of proof/sim reach into package stile, which sets each of these when a program begins. Nothing
// else may use them. Their types are any, since package stile imports this one.
package hooks

var (
	// NewAsleep is stile.New for a machine whose time asleep the test decides:
	// func(driver.Driver, *stile.Options, func() time.Duration) (*stile.Client, error).
	NewAsleep any

	// Names counts the names for which a client has work: func(*stile.Client) int.
	Names any

	// Beside counts the leases of a lease's hold: func(*stile.Lease) int.
	Beside any
)
