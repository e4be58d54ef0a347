package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
)

const (
	// patience bounds a call without a deadline.
	patience = 15 * time.Second

	// connectWithin bounds the wait for a connection of the pool, be it that all are in use or that none can be made.
	connectWithin = 5 * time.Second
)

// plain has a statement sent without a name, which works whatever stands between here and the server.
const plain = pgx.QueryExecModeExec

// query runs a statement and hands each of its rows over. An error says whether the statement may have been done.
func (d *Driver) query(caller context.Context, sql string, args []any, each func(rows pgx.Rows) error) error {
	if d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	ctx, cancel := context.WithTimeout(caller, patience)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	mode := plain
	if d.named.Load() {
		mode = pgx.QueryExecModeCacheStatement
	}
	rows, err := conn.Query(ctx, sql, append([]any{mode}, args...)...)
	if err == nil {
		for rows.Next() && err == nil {
			err = each(rows)
		}
		rows.Close()
		err = errors.Join(err, rows.Err())
	}
	if data := conn.Conn().PgConn().CustomData(); data[alone] != nil {
		delete(data, alone)
		if err == nil {
			err = errAlone
		}
	}
	if drops(err) {
		hangUp(conn.Conn())
	}
	if err != nil && ctx.Err() == nil && conn.Conn().IsClosed() {
		d.lost()
	}
	return d.explain(caller, err)
}

// alone is what a connection notes if the server has committed without the standby that it was to wait for.
const alone = "stile: committed alone"

var errAlone = errors.New("the server committed, but somebody cancelled the wait for the synchronous standby")

// heed notes the warning that a commit was not waited for, which comes before the answer. Its text is in the server's
// language, and it has no code of its own.
func heed(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[alone] = true
	}
}

// lost says that a connection was lost. The others have most likely gone with it, and the next calls had better not find
// out by losing their requests.
func (d *Driver) lost() {
	if d.dialer != nil {
		d.pool.Reset()
	}
}

// acquire takes a connection out of the pool. Its errors are definite: nothing has been sent.
func (d *Driver) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	bound, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	start := time.Now()
	conn, err := d.pool.Acquire(bound)
	switch {
	case err == nil:
		return conn, nil
	case d.ctx.Err() != nil:
		return nil, driver.ErrClosed
	case bound.Err() == nil:
		return nil, driver.NotYet(d.explain(ctx, err))
	}
	if s := d.pool.Stat(); s.AcquiredConns() >= s.MaxConns() {
		err = &busyError{s.MaxConns(), time.Since(start), driver.Ended(bound, false)}
	} else if ctx.Err() == nil {
		err = &connectError{d.address(), time.Since(start), err}
	} else {
		return nil, driver.Ended(ctx, false)
	}
	return nil, driver.Unsent(driver.Unreachable(err))
}

func (d *Driver) address() string {
	c := d.pool.Config().ConnConfig
	return address(c.Host, c.Port)
}
