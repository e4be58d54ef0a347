// Package mysql keeps locks in MySQL and MariaDB, as rows of InnoDB tables.
//
// A claim is a row; the row of its name serialises all changes of the queue. Each verb is one transaction of two round
// trips: [driver.Queue] decides between the two. Entering an empty queue is one statement, and so is leaving it if no other
// claim has entered; handing an exclusive lock to the next claim is one round trip. Times are the server's. A client's
// waiters sleep in the server, on one connection for all of them. The client that lets a claim hold ends this sleep. In case
// no client does, waiters poll too. Importing the package registers the schemes mysql and mariadb.
//
// The tables are made at their first use. [Schema] is the SQL for databases whose users may not make tables; a user who
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
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/work"
	"github.com/stilelock/stile/store/sqldb"
)

// Options change where a [Driver] keeps its locks. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Prefix string // the beginning of the tables' names; empty means [DefaultPrefix]
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
	driver.Alerter
	driver.Identifier
} = (*Driver)(nil)

// New returns a driver that uses the caller's pool, makes its tables there if they are missing, and asks for the server's
// promises. The pool must be one of github.com/go-sql-driver/mysql with a chosen database. Closing the driver does not close
// the pool.
//
// With multiStatements=true in the pool's address, each verb takes two round trips; otherwise a few more. A client that
// stands still in the middle of a verb blocks that one name until the server ends its connection. So a pool for locks should
// set idle_transaction_timeout (MariaDB) or a short wait_timeout. While a claim waits, or has held for 100 ms, and for some
// seconds after, the driver uses one connection of a pool of four or more. One client of a server uses a second connection,
// of a pool of five or more.
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
	s.life, s.killers = work.Begin(), work.Begin()
	s.ctx = s.life.Context()
	s.promised.Life, s.promised.Ask = s.life, s.promises
	if s.owned != nil {
		s.promised.Connections = s.owned.made.Load
	}
	s.contended = newContended()
	if err := s.probe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.passes = s.short()
	d := &Driver{sqldb.Over(s), s}
	s.woke = d.Woke
	s.life.Go(s.tidy)
	return d, nil
}

// A store is the [sqldb.Store] of MySQL.
type store struct {
	db     *sql.DB
	owned  *connector // makes the connections of the store's own pool; nil if the pool is the caller's
	place  place
	secret string // the password, kept out of errors
	addr   string // for messages; empty means that the pool is the caller's

	passes string // the text of the short way of leaving, with marks for the claim

	batches   bool        // several statements may be sent as one text
	blocks    bool        // the server takes them as one block
	apart     atomic.Bool // it no longer does
	limit     int         // the largest text in bytes
	skips     bool        // the server has SKIP LOCKED
	promised  promise.Promise
	seen      string                            // the result of the last poll, as a text
	failing   bool                              // the last poll failed
	polled    atomic.Pointer[sqldb.PollRequest] // the request of the last poll
	woke      func(...driver.Entry)             // notifies claims that hold
	wakeups   wakeups
	kills     killStates
	contended *contended

	life    *work.Life
	ctx     context.Context // ends with the store
	killers *work.Life      // they send the wakeups, and end first
}

// Traits returns the server's promises. The driver asks for them again after a reconnection. It does not see the connections
// of a caller's pool: there it asks from time to time.
func (s *store) Traits() driver.Traits { return s.promised.Traits() }

// wakesEnd is how long Close waits for the wakeups of its last changes.
const wakesEnd = time.Second

// Close implements [sqldb.Store]. A client that breaks a claim and closes at once still sends the wakeup, if the server
// answers.
func (s *store) Close() error {
	s.killers.End()
	woken := make(chan struct{})
	go func() { s.killers.Wait(); close(woken) }()
	select {
	case <-woken:
	case <-time.After(wakesEnd):
	}
	s.life.End()
	<-woken
	s.life.Wait()
	if s.owned != nil {
		return s.db.Close()
	}
	return nil
}

var errEmptied = errors.New("the table of the schema's version was emptied")
