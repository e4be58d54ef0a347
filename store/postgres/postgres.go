// Package postgres keeps locks in PostgreSQL, as rows of two tables.
//
// A claim is a row, or, while it is alone, part of the row of its name, which serialises all changes of the queue. Each verb
// is one statement, so one round trip and one transaction: it changes the row of a name whose claim is alone, or calls a
// function in the database. Lone claims of one client on different names share a statement if they would otherwise wait for
// a connection. A client that lets others hold notifies exactly their clients, each of which listens on one connection.
// Times are the server's. Importing the package registers the schemes postgres and postgresql.
//
// The tables are made at their first use. [Schema] is the SQL for databases whose users may not make tables; a user who
// only locks then needs these rights:
//
//	GRANT USAGE ON SCHEMA stile TO locks;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON stile.stile_name, stile.stile_claim TO locks;
//	GRANT SELECT, UPDATE ON stile.stile_meta TO locks;
//	GRANT SELECT ON stile.stile_id TO locks;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA stile TO locks;
//
// [LockTx] is a lock that lives in the caller's own transaction. It needs no tables, no lease and no token.
//
// A URL with mode=session keeps locks as advisory locks of one connection instead: faster, without tables, and gone with the
// connection. They have no tokens, no permits and no order.
package postgres

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/inbox"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// Options change where a [Driver] keeps its locks. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Schema string // schema of the tables; empty means [DefaultSchema]
	Prefix string // begins the names of tables and functions; empty means [DefaultPrefix]
}

// A Driver keeps locks in PostgreSQL. Its methods may be called at once.
type Driver struct {
	link     *link.Link
	tables   tables
	revision int // of the tables

	statements statements
	contended  *contended
	groups     *groups
	channel    string // this driver's own channel
	inboxes    *inbox.Set
	breaks     *breakWatch
	pollReason string // why notifications do not arrive, so that waiters poll; empty if they arrive
	poller     *poller
	watch      *watch
	failover   failoverWatch
	promised   promise.Promise
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
	driver.Adopter
	driver.Identifier
} = (*Driver)(nil)

// New returns a driver that uses the caller's pool, makes its tables if they are missing, and asks for the server's
// promises. It opens one connection of its own, with the configuration of the pool, to listen on. Closing the driver does
// not close the pool.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	t, err := newTables(o.Schema, o.Prefix)
	if err != nil {
		return nil, err
	}
	return start(ctx, link.New(pool), t)
}

// OnNotice heeds the server's warning that somebody cancelled a commit's wait for the synchronous standby. After it the
// outcome of the request is unknown. A pool for [New] must have OnNotice as the OnNotice of its ConnConfig, or call it
// there: without it such a commit counts as done.
func OnNotice(conn *pgconn.PgConn, n *pgconn.Notice) { link.Heed(conn, n) }

// start makes a driver. Closing the driver closes the link, and so does an error.
func start(ctx context.Context, l *link.Link, t tables) (*Driver, error) {
	d := &Driver{link: l, tables: t, channel: "stile_" + rand.Text(), statements: newStatements(t, "''"), contended: newContended()}
	d.inboxes, d.poller, d.breaks = inbox.New(&listener{d}, parseTold), newPoller(d), newBreakWatch(d)
	d.inboxes.Subscriber = d.breaks
	d.watch, d.groups = newWatch(d), newGroups(d, l.Pool().Stat().MaxConns())
	d.promised.Life, d.promised.Ask = l.Life, d.promises
	d.promised.Connections = func() int64 { return l.Pool().Stat().NewConnsCount() }
	if err := d.probe(ctx); err != nil {
		l.Close()
		return nil, err
	}
	l.Go(d.tidy)
	return d, nil
}

// Traits returns the server's promises. The driver asks for them again after a reconnection.
func (d *Driver) Traits() driver.Traits { return d.promised.Traits() }

// Close ends every call. It closes the pool too, unless it is the caller's own.
func (d *Driver) Close() error {
	d.link.Close()
	return nil
}
