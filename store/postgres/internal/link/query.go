package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
)

const (
	// patience bounds a call without a deadline.
	patience = 15 * time.Second

	// ConnectWithin bounds the wait for a connection of the pool, whether all are in use or none can be made.
	ConnectWithin = 5 * time.Second
)

// Plain sends a statement without a name, which works through any pooler.
const Plain = pgx.QueryExecModeExec

// Query runs a statement and passes on each of its rows. The error says whether the statement may have been applied.
func (l *Link) Query(caller context.Context, sql string, args []any, each func(rows pgx.Rows) error) error {
	return l.query(caller, sql, args, nil, each)
}

// QueryThen is Query of a statement whose arguments then returns, when there is a connection. Nil means that it is not sent.
func (l *Link) QueryThen(caller context.Context, sql string, then func() []any, each func(rows pgx.Rows) error) error {
	return l.query(caller, sql, nil, then, each)
}

func (l *Link) query(
	caller context.Context, sql string, args []any, then func() []any, each func(rows pgx.Rows) error,
) error {
	return l.on(caller, func(ctx context.Context, conn *pgx.Conn) error {
		mode := Plain
		if l.prepare.Load() {
			mode = pgx.QueryExecModeCacheStatement
		}
		if then != nil {
			if args = then(); args == nil {
				return nil
			}
		}
		rows, err := conn.Query(ctx, sql, append([]any{mode}, args...)...)
		if err == nil {
			for rows.Next() && err == nil {
				err = each(rows)
				driver.Heard(ctx, 1)
			}
			rows.Close()
			if unread := err; unread != nil {
				err = fmt.Errorf("%w: %w", errMixedUp, unread)
			}
			if err = errors.Join(err, rows.Err()); err == nil {
				err = answers(rows.CommandTag(), sql)
			}
		}
		return err
	})
}

// confused reports whether an error is the client's own about what it read. Then the connection's next answers may belong to
// other requests too.
func confused(err error) bool {
	_, answered := errors.AsType[*pgconn.PgError](err)
	return err != nil && !answered && !errors.Is(err, errAlone)
}

var errMixedUp = errors.New("what came on the connection to postgres is no answer to the request, " +
	"as if a pooler had mixed up its clients' answers")

// answers returns an error if a statement cannot have this command tag, because the answer is another's. PgBouncer gives out
// a connection before it was reset if a notification comes at that moment. The connection's next request then gets the
// answer to DISCARD ALL, which has no rows and no error, and is done all the same.
func answers(tag pgconn.CommandTag, sql string) error {
	verb, _, _ := strings.Cut(sql, " ")
	if verb == "WITH" {
		verb = "SELECT"
	}
	if !strings.HasPrefix(tag.String(), verb) {
		return fmt.Errorf("%w: %q", errMixedUp, tag.String())
	}
	return nil
}

// on lends a connection of the pool, and explains its error.
func (l *Link) on(caller context.Context, use func(ctx context.Context, conn *pgx.Conn) error) error {
	if l.Context().Err() != nil {
		return driver.ErrClosed
	}
	ctx, cancel := driver.WithPatience(caller, patience, context.DeadlineExceeded)
	defer cancel()
	defer context.AfterFunc(l.Context(), cancel)()
	conn, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = use(ctx, conn.Conn())
	if data := conn.Conn().PgConn().CustomData(); data[alone] != nil {
		delete(data, alone)
		if err == nil {
			err = errAlone
		}
	}
	if Drops(err) || ctx.Err() == nil && confused(err) {
		HangUp(conn.Conn())
	}
	if err != nil && ctx.Err() == nil && conn.Conn().IsClosed() {
		l.Lost()
	}
	return l.Explain(caller, err)
}

// alone is a connection's note that the server has committed without its synchronous standby.
const alone = "stile: committed alone"

var errAlone = errors.New("the server committed, but somebody cancelled the wait for the synchronous standby")

// Heed notes the warning that the server did not wait for the standby at a commit, which comes before the answer. Its text
// is in the server's language, and it has no code of its own.
func Heed(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[alone] = true
	}
}

// acquire takes a connection from the pool. Its errors are definite: nothing was sent.
func (l *Link) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	bound, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	start := time.Now()
	conn, err := l.pool.Acquire(bound)
	switch {
	case err == nil:
		return conn, nil
	case l.Context().Err() != nil:
		return nil, driver.ErrClosed
	case bound.Err() == nil:
		return nil, driver.NotYet(l.Explain(ctx, err))
	}
	if s := l.pool.Stat(); s.AcquiredConns() >= s.MaxConns() {
		return nil, l.Busy(bound, time.Since(start))
	} else if ctx.Err() == nil {
		err = &connectError{l.address(), time.Since(start), err}
	} else {
		return nil, driver.Ended(ctx, false)
	}
	return nil, driver.Unsent(driver.Unreachable(err))
}

// Busy returns the error for a request that has waited for a connection until a context ended, while others used all
// connections.
func (l *Link) Busy(ended context.Context, waited time.Duration) error {
	return driver.Unsent(driver.Unreachable(&busyError{l.pool.Stat().MaxConns(), waited, driver.Ended(ended, false)}))
}

// Take takes a connection from the pool for good. Its errors are definite: nothing was sent.
func (l *Link) Take(ctx context.Context) (*pgx.Conn, error) {
	conn, err := l.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Hijack(), nil
}

// Dial makes a connection beside the pool, like the pool's own.
func (l *Link) Dial(ctx context.Context) (*pgx.Conn, error) {
	within, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	config := l.pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(within, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(within, config.ConnConfig)
}

// HangUp ends a connection without waiting for the server.
func HangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ctx) // ctx has ended, so this returns its error
}
