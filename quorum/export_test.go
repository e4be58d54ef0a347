package quorum

import "github.com/stilelock/stile/driver"

// Inner returns the driver without what it can show.
func Inner(d driver.Driver) *Driver {
	if o, ok := d.(*observed); ok {
		return o.Driver
	}
	return d.(*Driver)
}

// Check looks at all nodes, as is done now and then.
func Check(d *Driver) { d.look() }
