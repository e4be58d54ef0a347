package mysql

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func begin(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// orders returns a pool on a database with the tables of locks, and a table of orders.
func orders(t testing.TB) *sql.DB {
	t.Helper()
	name := database(t, server)
	tidied(t, open(t, "mysql://root@"+server.Addr+"/"+name))
	db := raw(t, server, name)
	mustExec(t, db, "CREATE TABLE orders (id INT PRIMARY KEY, paid INT NOT NULL) ENGINE = InnoDB; "+
		"INSERT INTO orders VALUES (1, 0)")
	return db
}

// waiting waits until a statement of the database has run long enough to wait for a row.
func waiting(t testing.TB, db *sql.DB) {
	t.Helper()
	longer := "SELECT COUNT(*) FROM information_schema.PROCESSLIST " +
		"WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND COMMAND = 'Query' AND TIME_MS > 50"
	if !maria(t, db) {
		longer = "SELECT COUNT(*) FROM performance_schema.threads " +
			"JOIN performance_schema.events_statements_current USING (THREAD_ID) WHERE PROCESSLIST_DB = DATABASE() AND PROCESSLIST_ID <> CONNECTION_ID() AND PROCESSLIST_COMMAND = 'Query' " +
			"AND END_EVENT_ID IS NULL AND TIMER_WAIT > 50 * 1000000000" // picoseconds
	}
	servertest.Until(t, "a statement waits", func() bool {
		var n int
		if err := db.QueryRowContext(timely(t), longer).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

func TestLockTxErrors(t *testing.T) {
	t.Parallel()
	db := orders(t)
	tx := begin(t, db, sql.LevelReadCommitted)
	if err := LockTx(timely(t), tx, ""); err == nil {
		t.Error("an empty name can be locked")
	}
	for _, pair := range [][2]string{{"Foo", "foo"}, {"é", "e"}, {"x", "x "}} {
		other := begin(t, db, sql.LevelReadCommitted)
		if err := errors.Join(LockTx(timely(t), tx, pair[0]), LockTx(timely(t), other, pair[1])); err != nil {
			t.Errorf("%q beside %q: %v; want two locks", pair[0], pair[1], err)
		}
		_ = other.Rollback()
	}
	other := begin(t, db, sql.LevelReadCommitted)
	ctx, cancel := context.WithCancel(timely(t))
	ended := make(chan error, 1)
	go func() { ended <- LockTx(ctx, other, "Foo") }()
	waiting(t, db)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("lock with a context that ends = %v; want %v", err, context.Canceled)
	}
	bare := raw(t, server, database(t, server))
	says(t, LockTx(timely(t), begin(t, bare, sql.LevelDefault), "x"), "lock \"x\"", "stile_tx")

	d := open(t, fresh(t, server, "prefix=my_"))
	own := begin(t, d.store.db, sql.LevelDefault)
	if err := d.LockTx(timely(t), own, "x"); err != nil {
		t.Errorf("with another prefix: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "UPDATE stile_tx SET name = 'other' WHERE name = 'x'")
	if err := LockTx(timely(t), begin(t, db, sql.LevelDefault), "x"); !errors.Is(err, driver.ErrForeign) {
		t.Errorf("lock = %v; want %v", err, driver.ErrForeign)
	}
}
