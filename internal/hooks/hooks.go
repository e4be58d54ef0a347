// Package hooks lets the simulations of proof/sim reach into package stile, which sets these variables when a program
// begins. Nothing else may use them. Their types are any, since package stile imports this one.
package hooks

var (
	// NewAsleep is stile.New for a machine whose sleep the test decides:
	NewAsleep any

	// Names counts the names for which a client has work: func(*stile.Client) int.
	Names any

	// Beside counts the leases of a lease's hold: func(*stile.Lease) int.
	Beside any
)
