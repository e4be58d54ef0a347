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

// partingWithin bounds a request to cancel a statement when the driver is closed.
const partingWithin = 2 * time.Second

// A dialer makes the connections of a pool that the driver owns, and ends them all when the driver is closed, so that no
// call waits for a silent server. A connection by which pgx cancels a statement has a moment more: it ends when the server
// has taken the request. If it ended earlier, PgBouncer before 1.19.1 would end too.
type dialer struct {
	net.Dialer
	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[*tracked]bool
}

// A tracked connection is known to its dialer until it is closed.
type tracked struct {
	net.Conn
	d      *dialer
	serves bool // it is not a request to cancel a statement; guarded by the dialer's mu
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

// begin notes that a connection is for statements. pgx calls it before the first word to the server, but not to cancel a
// statement.
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

// close ends all connections. Afterwards none is made.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.open {
		if c.serves {
			c.Conn.Close()
		} else {
			_ = c.SetDeadline(time.Now().Add(partingWithin)) // fails only on a closed connection
		}
	}
}
