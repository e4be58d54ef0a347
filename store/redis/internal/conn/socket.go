package conn

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A socket is a connection that informs its dialer when it is closed, and that can end a call. While only one goroutine uses
// the client, the library writes and reads in that goroutine. This is fast, but it obeys only the deadline of a context, not
// its cancellation. The library sets the connection's deadline before each such call, and clears it when it begins to read
// in a goroutine of its own.
type socket struct {
	net.Conn
	from *dialer
	owes atomic.Int64 // since when it owes an answer, in nanoseconds; 0 if it owes none
	came atomic.Bool  // something was received
	book ledger       // the answers that are owed

	mu    sync.Mutex // orders deadlines
	until time.Time  // the deadline of the last call in its caller's goroutine; zero if there is no such call
}

// Write is [net.Conn].
func (s *socket) Write(b []byte) (int, error) {
	s.owes.CompareAndSwap(0, time.Now().UnixNano())
	s.book.sends(b)
	return s.Conn.Write(b)
}

// Read is [net.Conn].
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.owes.Store(0)
		if !s.came.Load() {
			s.came.Store(true)
			if bytes.HasPrefix(b[:n], []byte("-ERR "+noRoom)) {
				return 0, errNoRoom // the library would read to the end of the connection, and report only the end
			}
		}
		if unasked := s.book.receives(b[:n]); unasked != nil {
			return 0, unasked
		}
	}
	return n, err
}

// noRoom is the message with which a server that is at its limit of connections closes a new one.
const noRoom = "max number of clients reached"

var errNoRoom = errors.New(noRoom)

// SetDeadline is [net.Conn].
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = t
	return s.Conn.SetDeadline(t)
}

// Close is [net.Conn].
func (s *socket) Close() error {
	s.from.mu.Lock()
	delete(s.from.open, s)
	s.from.mu.Unlock()
	return s.Conn.Close()
}

// interrupt ends the call with a deadline, if it is on this connection. If the call has ended and the connection is idle,
// this does no harm: the next call sets its own deadline. If the next call has already set it, the deadlines differ, and
// interrupt leaves that call alone.
func (s *socket) interrupt(deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.Equal(deadline) {
		s.Conn.SetDeadline(time.Now())
	}
}
