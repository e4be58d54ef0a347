package link

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
)

// partingWithin is how long a request to cancel a statement has, when the driver is closed, to be taken.
const partingWithin = 2 * time.Second

// A dialer makes the connections of a pool that the driver owns, and ends them all when the driver is closed, so that
// nothing waits for a server that does not answer. A connection by which pgx cancels a statement has a moment: it ends when the
// request has been taken, and PgBouncer before 1.19.1 ends too where it ends earlier.
type dialer struct {
	net.Dialer
	mu     sync.Mutex // guards what follows
	closed bool
	open   map[*tracked]bool
}

// A tracked connection is known to its dialer until it is closed.
type tracked struct {
	net.Conn
	d      *dialer
	serves bool // it is no request to cancel a statement; guarded by the dialer's mu
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
	c := &tracked{Conn: conn, d: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		conn.Close()
		return nil, driver.ErrClosed
	}
	d.open[c] = true
	return c, nil
}

// begin notes that a connection is one for statements. pgx asks for that before the first word to the server, but not where it
// cancels one.
func (d *dialer) begin(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	under := conn
	if secure, ok := conn.(*tls.Conn); ok {
		under = secure.NetConn()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return conn, driver.ErrClosed // pgx closes it
	}
	if c, ok := under.(*tracked); ok {
		c.serves = true
	}
	return conn, nil
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
		if c.serves {
			c.Conn.Close()
		} else {
			_ = c.SetDeadline(time.Now().Add(partingWithin)) // of a closed one
		}
	}
}
