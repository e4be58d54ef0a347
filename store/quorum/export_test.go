package quorum

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Inner returns the driver without what it can show.
func Inner(d driver.Driver) *Driver {
	if o, ok := d.(*observed); ok {
		return o.Driver
	}
	return d.(*Driver)
}

// Check looks at all nodes, as is done now and then.
func Check(d *Driver) { d.nodes.connect(context.Background()) }

// Settled reports whether all calls for claims are over, those too that nobody waits for any more.
func Settled(d *Driver) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.rounds.queues) == 0
}

// Rouse has nodes that could not be reached asked again at once.
func Rouse(d *Driver) {
	for _, n := range d.nodes.list {
		n.rest.Store(nil)
	}
}

// Known returns how many claims the driver remembers something of.
func Known(d *Driver) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leads.mu.Lock()
	defer d.leads.mu.Unlock()
	return len(d.claims.held) + len(d.leads.told)
}
