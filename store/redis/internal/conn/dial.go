package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A dialer makes the connections of a client, and can end them all. A connection is also for later callers, so it does not
// depend on the context of the call that needed it first.
type dialer struct {
	timeout time.Duration
	silence time.Duration   // a connection that owes an answer for this long is given up
	ctx     context.Context // ends all dialling
	cancel  context.CancelFunc
	made    atomic.Int64  // connections so far, each counted before its first use
	under   chan struct{} // has one element for each call under way, and room for mostCalls

	mu      sync.Mutex // guards the fields below
	open    map[*socket]bool
	minding bool      // mind will run again
	last    time.Time // when all connections were given up
}

func newDialer(timeout, silence time.Duration) *dialer {
	t := &dialer{timeout: timeout, silence: silence, under: make(chan struct{}, mostCalls), open: map[*socket]bool{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// mind gives up connections that have owed an answer for too long, and goes on while there are connections. The library
// sends some requests without a bound, and other calls wait for these. One such request asks whether a server that Sentinel
// named is the primary: until it is answered, the library reads no news of another primary from Sentinel.
func (d *dialer) mind() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UnixNano()
	for c := range d.open {
		if since := c.owes.Load(); since != 0 && now-since > int64(d.silence) {
			c.Conn.Close()
		}
	}
	if d.minding = len(d.open) > 0 && d.ctx.Err() == nil; d.minding {
		time.AfterFunc(d.silence/4, d.mind)
	}
}

// A dialError says which address could not be reached, and for how long the dialer tried.
type dialError struct {
	addr  string
	tried time.Duration
	err   error
}

func (e *dialError) Error() string {
	return fmt.Sprintf("cannot connect to redis at %s (tried for %v): %v", e.addr, e.tried.Round(time.Millisecond), e.err)
}

func (e *dialError) Unwrap() error {
	return foreign(e.err)
}

func (d *dialer) dial(_ context.Context, addr string, _ *net.Dialer, secure *tls.Config) (net.Conn, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	var c net.Conn
	var err error
	if secure != nil {
		c, err = (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", addr)
	} else {
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			err = op.Err // the rest repeats the address
		}
		return nil, &dialError{addr, time.Since(start), err}
	}
	owned := &socket{Conn: c, from: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil { // close ran during the dial, and did not find this connection among the open ones
		c.Close()
		return nil, &dialError{addr, time.Since(start), d.ctx.Err()}
	}
	d.open[owned] = true
	if !d.minding {
		d.minding = true
		time.AfterFunc(d.silence/4, d.mind)
	}
	d.made.Add(1)
	return owned, nil
}

// resetEvery is the least time between two resets of all connections: requests that are refused at one moment concern the
// same connections.
const resetEvery = 250 * time.Millisecond

// reset ends all connections. Calls on them have an unknown outcome.
func (d *dialer) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.last) < resetEvery {
		return
	}
	d.last = time.Now()
	for c := range d.open {
		c.Conn.Close()
	}
}

// close ends all connections, and all dials under way.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel()
	for c := range d.open {
		c.Conn.Close()
	}
}
