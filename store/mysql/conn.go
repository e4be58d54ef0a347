package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// patience bounds a call without a deadline.
	patience = 15 * time.Second

	// connectWithin bounds the wait for a connection of the pool, whether all are in use or none can be made.
	connectWithin = 5 * time.Second
)

var errSlow = driver.Unreachable(fmt.Errorf("the server has not answered for %v", patience))

// bound returns a context that ends with the caller's, when the store closes, or after patience.
func (s *store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// acquire takes a connection from the pool. Its errors are definite: nothing has been sent.
func (s *store) acquire(ctx context.Context) (*sql.Conn, error) {
	if s.ctx.Err() != nil {
		return nil, driver.ErrClosed
	}
	bound, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	start := time.Now()
	conn, err := s.db.Conn(bound)
	if err == nil {
		return conn, nil
	}
	switch stats := s.db.Stats(); {
	case s.ctx.Err() != nil:
		return nil, driver.ErrClosed
	case bound.Err() == nil:
		return nil, s.definite(ctx, err)
	case stats.MaxOpenConnections > 0 && stats.InUse >= stats.MaxOpenConnections:
		err = fmt.Errorf("all %d connections of the pool were in use for %v: %w",
			stats.MaxOpenConnections, since(start), driver.Ended(bound, false))
	case ctx.Err() != nil:
		return nil, s.definite(ctx, err)
	default:
		err = fmt.Errorf("no connection to %s could be made in %v: %w", s.address(), since(start), s.cause(err))
	}
	return nil, driver.Unsent(driver.Unreachable(err))
}

func since(start time.Time) time.Duration { return time.Since(start).Round(10 * time.Millisecond) }

// A text is a list of statements. They are sent as one if the server takes several at once, otherwise one by one.
type text []string

// exec runs statements in order. If one fails, the later ones were not run.
func (s *store) exec(ctx context.Context, conn *sql.Conn, t text) error {
	for part := range t.parts(s.batches, s.limit) {
		if _, err := conn.ExecContext(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// query runs statements, the last of which has rows, and passes on each row.
func (s *store) query(ctx context.Context, conn *sql.Conn, t text, each func(rows *sql.Rows) error) error {
	last := len(t) - 1
	if !s.batches {
		if err := s.exec(ctx, conn, t[:last]); err != nil {
			return err
		}
		t = t[last:]
	}
	rows, err := conn.QueryContext(ctx, strings.Join(t, ";\n"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
		driver.Heard(ctx, 1)
	}
	return errors.Join(rows.Err(), rows.Close())
}

// results runs statements, and then the statements that have rows. It passes each row to the function at the index of its
// statement.
func (s *store) results(ctx context.Context, conn *sql.Conn, first, queries text, each ...func(rows *sql.Rows) error) error {
	if !s.batches {
		if err := s.exec(ctx, conn, first); err != nil {
			return err
		}
		for i := range queries {
			if err := s.query(ctx, conn, queries[i:i+1], each[i]); err != nil {
				return err
			}
		}
		return nil
	}
	rows, err := conn.QueryContext(ctx, strings.Join(append(slices.Clip(first), queries...), ";\n"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for i := range queries {
		for rows.Next() {
			if err := each[i](rows); err != nil {
				return err
			}
		}
		if i < len(queries)-1 && !rows.NextResultSet() {
			return errors.Join(rows.Err(), errShort)
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

var errShort = errors.New("the server answered fewer statements than it was sent")

// parts joins the statements that may be sent at once.
func (t text) parts(batches bool, limit int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(t) > 0 {
			n, size := 1, len(t[0])
			for batches && n < len(t) && size+len(t[n])+2 <= limit {
				size += len(t[n]) + 2
				n++
			}
			if !yield(strings.Join(t[:n], ";\n")) {
				return
			}
			t = t[n:]
		}
	}
}

// quote makes bytes a literal that no setting of the session and no character set can change.
func quote(b []byte) string { return fmt.Sprintf("X'%X'", b) }
