package serve

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxConns   = 40_000
	otherFiles = 512 // kept for the store and the service's own files
)

// mostConns returns how many connections the service may have: each needs a file of the process.
func mostConns() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return maxConns
	}
	return int(min(max(r.Cur, 2*otherFiles)-otherFiles, maxConns))
}

// mostWaits returns how many requests may wait, so that others get connections beside them.
func mostWaits(conns int) int { return conns / 4 * 3 }

// A bounded listener has a number of connections at a time. One more takes the place of a connection that keeps the service
// waiting: for a handshake, a head, a body, the next request, or for its client to read an answer. So connections that do
// nothing, or do it slowly, hold nobody up, and requests in the service's hands are not disturbed. A connection that never
// had a request goes first, so strangers give way to clients; then the one that the service waits for longest.
//
// The service waits for a client while its connection has a deadline: see package net/http.
type bounded struct {
	net.Listener
	most int
	full func() // called when a connection finds no room, and the one before did

	mu        sync.Mutex // guards the fields below, also in the connections
	open      int
	refusing  bool
	strangers list.List // of connections that the service waits for, and that never had a request; the longest wait first
	clients   list.List // the others that it waits for
}

// A side is a direction in which the service may wait for a client.
type side int

const (
	reading side = 1 << iota
	writing
)

// A conn is a connection of a bounded listener.
type conn struct {
	*net.TCPConn
	of     *bounded
	waits  side          // for which the service waits
	asked  bool          // it had a request
	in     *list.List    // that has it; nil if none has
	at     *list.Element // in that list
	closed bool
}

// Accept is [net.Listener.Accept].
func (b *bounded) Accept() (net.Conn, error) {
	for {
		raw, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := raw.(*net.TCPConn)
		if !ok {
			raw.Close()
			return nil, errors.New("the listener is not one of TCP")
		}
		c := &conn{TCPConn: tcp, of: b}
		fits, again := b.admit(c)
		if fits {
			return c, nil
		}
		raw.Close()
		if !again {
			b.full()
		}
	}
}

// admit makes room for a connection and notes that the service waits for it. If there is no room, it says whether there was
// none for the last connection either.
func (b *bounded) admit(c *conn) (fits, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.most {
		first := b.strangers.Front()
		if first == nil {
			first = b.clients.Front()
		}
		if first == nil {
			again, b.refusing = b.refusing, true
			return false, again
		}
		out := first.Value.(*conn)
		b.leaveLocked(out)
		out.TCPConn.Close() // package net/http notices, and closes it too
	}
	b.refusing = false
	b.open++
	b.waitLocked(c, reading)
	return true, false
}

func (b *bounded) leaveLocked(c *conn) {
	if !c.closed {
		b.waitLocked(c, 0)
		c.closed = true
		b.open--
	}
}

// waitLocked notes for which sides of a connection the service waits.
func (b *bounded) waitLocked(c *conn, sides side) {
	c.waits = sides
	switch {
	case c.closed:
	case sides == 0 && c.in != nil:
		c.in.Remove(c.at)
		c.in, c.at = nil, nil
	case sides != 0 && c.in == nil:
		c.in = &b.strangers
		if c.asked {
			c.in = &b.clients
		}
		c.at = c.in.PushBack(c)
	}
}

// state takes the states of connections from package net/http.
func (b *bounded) state(n net.Conn, s http.ConnState) {
	if t, ok := n.(*tls.Conn); ok {
		n = t.NetConn()
	}
	if c, ok := n.(*conn); ok && s == http.StateActive {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.asked = true
	}
}

// limit notes a new deadline. Zero means that the service does not wait for the client.
func (c *conn) limit(s side, t time.Time) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if t.IsZero() {
		c.of.waitLocked(c, c.waits&^s)
	} else {
		c.of.waitLocked(c, c.waits|s)
	}
}

// SetReadDeadline is [net.Conn.SetReadDeadline].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.limit(reading, t)
	return c.TCPConn.SetReadDeadline(t)
}

// SetWriteDeadline is [net.Conn.SetWriteDeadline].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.limit(writing, t)
	return c.TCPConn.SetWriteDeadline(t)
}

// SetDeadline is [net.Conn.SetDeadline].
func (c *conn) SetDeadline(t time.Time) error {
	c.limit(reading|writing, t)
	return c.TCPConn.SetDeadline(t)
}

// Close is [net.Conn.Close].
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.leaveLocked(c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}
