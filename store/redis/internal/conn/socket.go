package conn

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A socket is a connection that tells its dialer when it is closed, and that can end a call made on it. As long as only one
// goroutine uses the client, the library writes and reads in that goroutine. That is quick, but it obeys the deadline of a
// context and not its cancellation. The library sets the connection's deadline before each such call, and clears it when
// it begins to read in a goroutine of its own.
type socket struct {
	net.Conn
	from *dialer
	owes atomic.Int64 // since when nothing came after something was sent, in nanoseconds; 0 if it does not
	came atomic.Bool  // something has come
	book ledger       // what is owed exactly

	mu    sync.Mutex // orders deadlines
	until time.Time  // the deadline that the last call in its caller's goroutine set; zero if there is no such call
}

// From manyCalls calls under way on, a connection writes at most once in gatherFor, and what comes meanwhile is written
// together. With fewer calls that is only a delay: with 16 goroutines on as many names a lock and unlock takes 21 µs without
// it, and 37 with it. With 64 it takes the same time, and of the client's processor 8 µs with it and 13 without
// (cd store/redis && go test -run '^$' -bench Pair .). Calls that share one are together already, and count as that one here.
//
// From someCalls on, others run after each write, before the library writes the next request: answers mostly come together, and so
// do the requests that follow from them. Where each claim has a script of its own, as in a cluster, a lock and unlock by one of 8
// goroutines is 0.6 writes so, and was 1.7; it takes 24 µs of the client's processor, and took 29. With 16 goroutines it takes 32 µs, and
// took 37 (on a busy machine, in turns with go test -run '^$' -bench Pair ., and crowded so high that no crowd forms).
const (
	someCalls = 3
	manyCalls = 32
	gatherFor = 50 * time.Microsecond
)

// Write is [net.Conn]. The library calls it in the goroutine of a call that is alone, or in one of its own, which gathers
// the next requests when this returns.
func (s *socket) Write(b []byte) (int, error) {
	s.owes.CompareAndSwap(0, time.Now().UnixNano())
	s.book.sends(b)
	n, err := s.Conn.Write(b)
	switch calls := len(s.from.calls.under); {
	case calls >= manyCalls:
		time.Sleep(gatherFor)
	case calls >= someCalls:
		runtime.Gosched()
	}
	return n, err
}

// Read is [net.Conn].
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.owes.Store(0)
		if !s.came.Load() {
			s.came.Store(true)
			if bytes.HasPrefix(b[:n], []byte("-ERR "+noRoom)) {
				return 0, errNoRoom // the library would go on to the end of the connection, and say only that
			}
		}
		if unasked := s.book.receives(b[:n]); unasked != nil {
			return 0, unasked
		}
	}
	return n, err
}

// noRoom is what a server with as many connections as it may have says before it closes another.
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

// interrupt ends the call with a deadline, if it is on this connection. If the call has ended meanwhile, and the connection
// is idle, this does no harm: the next call sets the deadline anew. If the next call has set it already, the deadlines
// differ, and this leaves that call alone.
func (s *socket) interrupt(deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.Equal(deadline) {
		s.Conn.SetDeadline(time.Now())
	}
}
