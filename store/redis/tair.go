package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// openTair opens the driver of a layout at the address of a Tair, which speaks Redis' protocol and has more commands:
//
//	tair://[user:password@]host[:6379][/database]
//
// or tairs by TLS, with the parameters of [Open].
func openTair(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	layout := a.Param("layout", layoutQueue)
	if layout != layoutQueue && layout != layoutSetNX && layout != layoutExSet {
		return nil, driver.Refused(fmt.Errorf("parameter layout: %q is none of %s, %s and %s",
			layout, layoutQueue, layoutSetNX, layoutExSet))
	}
	if len(a.Hosts) > 1 {
		return nil, driver.Refused(fmt.Errorf("%s:// takes one host", a.Scheme))
	}
	c, prefix, err := openConn(ctx, a)
	if err != nil {
		return nil, err
	}
	if layout == layoutQueue {
		return newDriver(ctx, c, prefix), nil
	}
	d, err := newTair(ctx, c, layout, prefix)
	if err != nil {
		c.Close()
		return nil, err
	}
	return d, nil
}

// newTair makes the driver of a layout other than the queue, if the server has the commands for it.
func newTair(ctx context.Context, c *conn.Conn, layout, prefix string) (driver.Driver, error) {
	if layout == layoutExSet {
		return newExSet(ctx, c, prefix)
	}
	missing, err := c.Lacks(ctx, "CAS", "CAD")
	if err != nil {
		return nil, err
	}
	s := newSetNX(ctx, c, prefix)
	s.keyWatch = nil // whether a Tair reports a CAS is unknown
	if len(missing) == 0 {
		return newTairCAS(s), nil
	}
	s.notes = append(s.notes, "The server has no commands CAS and CAD, so claims are renewed and released by scripts.")
	return s, nil
}

// newExSet makes the driver of layout exset, which keeps each lock as setnx does, but in a TairString. Its version is the
// ticket.
func newExSet(ctx context.Context, c *conn.Conn, prefix string) (driver.Driver, error) {
	missing, err := c.Lacks(ctx, "EXGET", "EXSET", "EXCAD")
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, driver.Refused(fmt.Errorf("layout %s needs TairString, and the server has no command %s: "+
			"load the module, or use layout %s", layoutExSet, strings.Join(missing, ", "), layoutSetNX))
	}
	s := &valueLock{}
	s.init(ctx, c, prefix, layoutExSet, exSetScripts())
	return s, nil
}
