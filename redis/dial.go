package redis

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

// A dialer makes the connections of a client, and can end them all. A connection is made for whoever uses it next, so
// it does not depend on the context of the call that asked for it first.
type dialer struct {
	timeout time.Duration
	silence time.Duration   // a connection that owes an answer for as long is given up
	ctx     context.Context // ends all dialling
	cancel  context.CancelFunc
	made    atomic.Int64 // connections so far, each counted before its first use

	mu      sync.Mutex // guards what follows
	open    map[*conn]bool
	minding bool           // somebody looks which of them are silent
	calls   map[*call]bool // those under way
	looking bool           // they are looked at soon
	last    time.Time      // when all connections were given up
}

func newDialer(timeout, silence time.Duration) *dialer {
	t := &dialer{timeout: timeout, silence: silence, open: map[*conn]bool{}, calls: map[*call]bool{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// A conn tells its dialer when it is closed, and can end a call that is made on it. The client, as long as one goroutine
// uses it, writes and reads in that goroutine, which is quick, but heeds only the deadline of a context. It sets the
// connection's deadline before each such call, and clears it when it begins to read in a goroutine of its own.
type conn struct {
	net.Conn
	from *dialer
	owes atomic.Int64 // since when nothing came after something was sent, in nanoseconds; 0 if it does not

	mu    sync.Mutex // orders deadlines
	until time.Time  // by this deadline the last call in the caller's goroutine is known; zero if none is made there
}

// Write is [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.owes.CompareAndSwap(0, time.Now().UnixNano())
	return c.Conn.Write(b)
}

// Read is [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.owes.Store(0)
	}
	return n, err
}

// mind gives up the connections that have owed an answer for too long, while there are any. The library asks a server some
// things without a limit, and keeps others waiting meanwhile: whether it is the primary, when Sentinel says so, while
// nobody hears from Sentinel that it is not any more.
func (t *dialer) mind() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now().UnixNano()
	for c := range t.open {
		if since := c.owes.Load(); since != 0 && now-since > int64(t.silence) {
			c.Conn.Close()
		}
	}
	if t.minding = len(t.open) > 0 && t.ctx.Err() == nil; t.minding {
		time.AfterFunc(t.silence/4, t.mind)
	}
}

// SetDeadline is [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return c.Conn.SetDeadline(t)
}

// interrupt ends the call with a deadline, if it is on this connection. It does nothing to an idle connection: the next call
// sets the deadline anew.
func (c *conn) interrupt(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.Equal(deadline) {
		c.Conn.SetDeadline(time.Now())
	}
}

// grace is how long a call may still take when its context has ended: to end it costs the connection.
const grace = 20 * time.Millisecond

// heed ends a call that hangs when ctx has ended, until the function that it returns is called. The call is known by the
// deadline of ctx, down to the nanosecond, so that the calls of others on other connections go on. Calls are looked at every
// now and then while there are any, which costs each far less than to be told by its context.
func (t *dialer) heed(ctx context.Context) (stop func()) {
	c := &call{ctx: ctx}
	c.deadline, _ = ctx.Deadline()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[c] = true
	if !t.looking {
		t.looking = true
		time.AfterFunc(grace/2, t.look)
	}
	return func() {
		t.mu.Lock()
		delete(t.calls, c)
		t.mu.Unlock()
	}
}

// A call is one whose context is heeded.
type call struct {
	ctx      context.Context
	deadline time.Time
	ended    time.Time // when it was seen that the context has ended; zero before
}

func (t *dialer) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for c := range t.calls {
		switch {
		case c.ctx.Err() == nil:
		case c.ended.IsZero():
			c.ended = now
		case now.Sub(c.ended) >= grace:
			for open := range t.open {
				open.interrupt(c.deadline)
			}
		}
	}
	if t.looking = len(t.calls) > 0 && t.ctx.Err() == nil; t.looking {
		time.AfterFunc(grace/2, t.look)
	}
}

// A dialError says which address could not be connected to, and for how long that was tried.
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

func (t *dialer) dial(_ context.Context, addr string, _ *net.Dialer, secure *tls.Config) (net.Conn, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout)
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
			err = op.Err // the rest says the address again
		}
		return nil, &dialError{addr, time.Since(start), err}
	}
	owned := &conn{Conn: c, from: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		c.Close()
		return nil, &dialError{addr, time.Since(start), t.ctx.Err()}
	}
	t.open[owned] = true
	if !t.minding {
		t.minding = true
		time.AfterFunc(t.silence/4, t.mind)
	}
	t.made.Add(1)
	return owned, nil
}

// Close is [net.Conn].
func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// resetEvery is how often all connections may be given up: those who are refused at the same moment mean the same ones.
const resetEvery = 250 * time.Millisecond

// reset ends all connections that there are. Calls on them have an unknown outcome.
func (t *dialer) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) < resetEvery {
		return
	}
	t.last = time.Now()
	for c := range t.open {
		c.Conn.Close()
	}
}

// close ends all connections, and those that are being made.
func (t *dialer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel()
	for c := range t.open {
		c.Conn.Close()
	}
}
