package quorum

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Inner returns the driver without the methods for observers.
func Inner(d driver.Driver) *Driver {
	if o, ok := d.(*observed); ok {
		return o.Driver
	}
	return d.(*Driver)
}

// Check checks all nodes at once.
func Check(d *Driver) { d.nodes.connect(context.Background()) }

// Settled reports whether all calls for claims are over, even those that nobody waits for any more.
func Settled(d *Driver) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.rounds.queues) == 0
}

// Rouse ends the rest of nodes that could not be reached.
func Rouse(d *Driver) {
	for _, n := range d.nodes.list {
		n.rest.Store(nil)
	}
}

// Known returns how many claims the driver remembers.
func Known(d *Driver) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leads.mu.Lock()
	defer d.leads.mu.Unlock()
	return len(d.claims.held) + len(d.leads.told)
}
