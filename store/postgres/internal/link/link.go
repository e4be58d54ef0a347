// Package link connects a driver to one PostgreSQL server, or to the one of several that accepts writes: a pool of
// connections, statements on them, the meaning of their errors, and one end for all its users. It does not know claims.
package link

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// A Link is a connection to a server, over a pool. Its methods may be called at once.
type Link struct {
	pool    *pgxpool.Pool
	config  *pgx.ConnConfig // of the pool; its password is kept out of errors
	dialer  *dialer         // makes the connections of a pool that the link owns; nil if the pool is the user's
	prepare atomic.Bool     // statements are prepared
	pooled  atomic.Bool     // a pooler is in between

	*work.Life // ends when the link is closed
}

// New returns a link over the user's own pool, which it does not close.
func New(pool *pgxpool.Pool) *Link {
	return &Link{pool: pool, config: pool.Config().ConnConfig, Life: work.Begin()}
}

// Open returns a link over a pool of its own. The caller has read its own parameters of the address; unread ones are an
// error. The link connects at its first use.
func Open(ctx context.Context, a *driver.Address) (*Link, error) {
	config, err := poolConfig(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	d := &dialer{open: map[*tracked]bool{}}
	config.ConnConfig.DialFunc, config.ConnConfig.AfterNetConnect, config.ConnConfig.OnNotice = d.dial, d.begin, Heed
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, driver.Refused(errors.New(unquoted(err, a.Password)))
	}
	l := New(pool)
	l.dialer = d
	return l, nil
}

// Close ends all work of the link, and waits for it. It closes the pool too, unless it is the user's own.
func (l *Link) Close() {
	l.End()
	if l.dialer != nil {
		l.dialer.close()
	}
	l.Wait()
	if l.dialer != nil {
		l.pool.Close()
	}
}

// Pool returns the connections' pool.
func (l *Link) Pool() *pgxpool.Pool { return l.pool }

// Heeds reports whether its connections may heed the server's warnings: without an OnNotice they do not.
func (l *Link) Heeds() bool { return l.config.OnNotice != nil }

// User returns the user's name for the server.
func (l *Link) User() string { return l.config.User }

// Prepare makes Query prepare its statements from now on, since connections keep their server. It has no effect if the
// pool's connections have no cache for statements.
func (l *Link) Prepare() { l.prepare.Store(l.config.StatementCacheCapacity > 0) }

// Pooled reports whether a connection leads through a pooler, which reports a process number of its own, and not directly to
// the server. From then on the link's errors name the pooler.
func (l *Link) Pooled(conn *pgx.Conn, process uint32) bool {
	pooled := conn.PgConn().PID() != process
	if pooled {
		l.pooled.Store(true)
	}
	return pooled
}

// FindPooler reports whether the connections of the pool are Pooled.
func (l *Link) FindPooler(ctx context.Context) (pooled bool, err error) {
	err = l.on(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var process uint32
		err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", Plain).Scan(&process)
		pooled = err == nil && l.Pooled(conn, process)
		return err
	})
	return pooled, err
}

// Lost says that a connection was lost. Most likely the others are lost too, and should not cost later calls their requests.
func (l *Link) Lost() {
	if l.dialer != nil {
		l.pool.Reset()
	}
}
