package link

import (
	"context"
	"net"
	"sync"

	"github.com/stilelock/stile/driver"
)

// A dialer makes the connections of a pool that the driver owns, and ends them all when the driver is closed, so that
// nothing waits for a server that does not answer.
type dialer struct {
	net.Dialer
	mu     sync.Mutex // guards what follows
	closed bool
	open   map[*tracked]bool
}

// A tracked connection is known to its dialer until it is closed.
type tracked struct {
	net.Conn
	d *dialer
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil, driver.ErrClosed
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &tracked{conn, d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		conn.Close()
		return nil, driver.ErrClosed
	}
	d.open[c] = true
	return c, nil
}

// Close closes the connection.
func (c *tracked) Close() error {
	c.d.mu.Lock()
	delete(c.d.open, c)
	c.d.mu.Unlock()
	return c.Conn.Close()
}

// close ends all connections, and from now on none is made.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.open {
		c.Conn.Close()
	}
}
