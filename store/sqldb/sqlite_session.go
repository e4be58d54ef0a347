package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
)

// A session is one connection with its prepared statements, used by one goroutine at a time. It opens at its first use, and
// again after a failure.
//
// Its statements run without the caller's context: each takes microseconds, and an uninterrupted statement has a known
// outcome. The wait for another process, which can be long, is in [lite.patiently].
type session struct {
	connect func(context.Context) (Conn, error)
	text    map[string]string
	turn    chan struct{} // holds a value while the session is in use
	conn    Conn
}

func newSession(connect func(context.Context) (Conn, error), text map[string]string) *session {
	return &session{connect: connect, text: text, turn: make(chan struct{}, 1)}
}

// take waits for the session's turn.
func (d *lite) take(ctx context.Context, s *session) error {
	select {
	case <-d.closed:
		return driver.ErrClosed
	default:
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	case <-d.closed:
		return driver.ErrClosed
	}
	if s.conn != nil {
		return nil
	}
	if err := d.patiently(ctx, func() error { return s.open(ctx) }); err != nil {
		s.give()
		return err
	}
	return nil
}

// pragmas are set on each connection. They end with it, since a connection never goes back to the pool.
//
// synchronous=NORMAL does not sync a commit to the disk. A power loss may undo the last commits, but it also ends every
// process that held a lock here. Their claims are void after the boot, and tickets go on from the wall clock, so above the
// undone tickets. A crash of only the process undoes nothing.
//
// busy_timeout is 0 since SQLite's own wait heeds no context.
var pragmas = []string{"PRAGMA busy_timeout = 0", "PRAGMA synchronous = NORMAL"}

func (s *session) give() { <-s.turn }

func (s *session) open(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.conn = conn
	for _, text := range pragmas {
		if err := conn.Exec(text); err != nil {
			s.drop()
			return err
		}
	}
	return nil
}

// drop closes the connection for good, which undoes a transaction that is open on it.
func (s *session) drop() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

var errDropped = errors.New("the connection was lost")

// prepare prepares the statement of that name.
func (s *session) prepare(name string) error {
	if s.conn == nil {
		return errDropped
	}
	return s.conn.Prepare(s.text[name])
}

func (s *session) exec(name string, args ...any) error {
	if s.conn == nil {
		return errDropped
	}
	return s.conn.Exec(s.text[name], args...)
}

// row reads a statement's one row. The error is [sql.ErrNoRows] if there is none.
func (s *session) row(name string, args []any, into ...any) error {
	found := false
	err := s.rows(name, args, func(scan func(...any) error) (bool, error) {
		found = true
		return false, scan(into...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// rows passes a statement's rows to each, until each returns false.
func (s *session) rows(name string, args []any, each func(scan func(...any) error) (bool, error)) error {
	if s.conn == nil {
		return errDropped
	}
	return s.conn.Query(s.text[name], args, each)
}

const (
	firstBackoff = 100 * time.Microsecond // about one transaction

	// maxBackoff is short, so that one process among many gets its turn. With 1 ms, 8 processes on names of their own did
	// 6,000/s with a p99 of 26 ms; with 4 ms, they did 2,700/s and 60 ms, beside 10,000/s for bare rows on a busy machine
	// (medians of three interleaved rounds of: scenario own of the bench on SQLite).
	maxBackoff = time.Millisecond
)

// patiently repeats f while another process keeps the database locked, until the context ends or the wait is too long. Its
// errors prove that f had no effect.
func (d *lite) patiently(ctx context.Context, f func() error) error {
	start := time.Now()
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		err := f()
		if err == nil {
			return nil
		}
		if ended := driver.Ended(ctx, false); ended != nil {
			return ended
		}
		if !busy(err) {
			return driver.Refused(explain(d.options.Label, err))
		}
		if time.Since(start) > d.options.Busy {
			return driver.Unreachable(driver.Unsent(busyError(d.options.Label, d.options.Busy)))
		}
		if err := d.pause(ctx, wait/2+rand.N(wait)); err != nil {
			return err
		}
	}
}

func (d *lite) pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	case <-d.closed:
		return driver.ErrClosed
	}
}
