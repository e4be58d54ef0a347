// Package mysql keeps locks in MySQL and MariaDB, as rows of InnoDB tables.
//
// A claim is a row; the row of its name serialises all that happens to the queue. Each verb is one transaction of two
// round trips, which [driver.Queue] decides between them; entering an empty queue, and leaving it if nobody came
// meanwhile, is one statement each, and passing an exclusive lock on to the next claim is one round trip. Times are the server's. A waiter sleeps in the server, on one connection for all of its
// client, until the client that lets it hold ends the sleep, and polls in case nobody does. Importing the package registers
// the schemes mysql and mariadb.
//
// The tables are made when they are first used. [Schema] is the SQL for databases whose users may not do that; a user who
// only locks then needs these rights:
//
//	GRANT SELECT, INSERT, UPDATE, DELETE ON shop.stile_name TO locks;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON shop.stile_claim TO locks;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON shop.stile_tx TO locks;
//	GRANT SELECT, UPDATE ON shop.stile_meta TO locks;
//	GRANT SELECT ON shop.stile_id TO locks;
//
// A URL with mode=session keeps locks as user-level locks of the server (GET_LOCK) instead: without tables, and gone with
// their connection. They have no tokens, no readers, no permits and no order.
//
// [LockTx] is a lock that lives in the caller's own transaction. It needs no lease and no token.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/sqldb"
)

// Options change where a [Driver] keeps its locks. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Prefix string // that the names of the tables begin with; empty means [DefaultPrefix]
}

// A Driver keeps locks in MySQL or MariaDB. Its methods may be called at once.
type Driver struct {
	*sqldb.Driver
	store *store
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Identifier
} = (*Driver)(nil)

// New returns a driver that uses the caller's pool, which must be one of github.com/go-sql-driver/mysql with a database
// chosen, makes its tables there if they are missing, and asks the server what it can promise. Closing the driver does
// not close the pool.
//
// With multiStatements=true in the pool's address, each verb takes two round trips; else a few more. A client that
// stands still in the middle of a verb keeps others from that one name until the server ends its connection, so a
// pool for locks had better set idle_transaction_timeout (MariaDB) or a short wait_timeout. While somebody waits, and for
// some seconds after, the driver keeps one connection of a pool that may open four or more.
func New(ctx context.Context, db *sql.DB, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	p, err := newPlace(o.Prefix)
	if err != nil {
		return nil, err
	}
	return start(ctx, &store{db: db, place: p})
}

// start makes a driver of a store whose pool and place are set, and closes it if that fails.
func start(ctx context.Context, s *store) (*Driver, error) {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.loneEnters, s.loneLeaves, s.passes = s.place.fill(loneEnters), s.place.fill(loneLeaves), s.place.passing(s.owned)
	s.contended = newContended()
	if err := s.probe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.tasks.Go(s.tidy)
	return &Driver{sqldb.Over(s), s}, nil
}

// A store is the [sqldb.Store] of MySQL.
type store struct {
	db     *sql.DB
	owned  bool // the pool is the store's own, and so are the settings of its connections
	place  place
	secret string // the password, kept out of errors
	addr   string // for messages; empty means that the pool is the caller's

	loneEnters, loneLeaves, passes string // statements

	batches   bool // several statements may be sent as one text
	limit     int  // bytes that a text may have
	skips     bool // the server has SKIP LOCKED
	traits    driver.Traits
	seen      string // what the last look saw
	failing   bool   // the last look failed
	bell      bell
	contended *contended

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// Traits tells what the server can promise, as it answered when the driver was made.
func (s *store) Traits() driver.Traits { return s.traits }

// Close is that of [sqldb.Store].
func (s *store) Close() error {
	s.bell.mu.Lock()
	s.cancel()
	s.bell.mu.Unlock()
	s.tasks.Wait()
	if s.owned {
		return s.db.Close()
	}
	return nil
}

var errEmptied = errors.New("the table of the schema's version was emptied")
