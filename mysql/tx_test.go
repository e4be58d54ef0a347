package mysql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
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

// orders returns a pool on a database with the tables of locks, and one of orders.
func orders(t testing.TB) *sql.DB {
	t.Helper()
	name := database(t, server)
	tidied(t, open(t, "mysql://root@"+server.Addr+"/"+name))
	db := raw(t, server, name)
	mustExec(t, db, "CREATE TABLE orders (id INT PRIMARY KEY, paid INT NOT NULL) ENGINE = InnoDB; "+
		"INSERT INTO orders VALUES (1, 0)")
	return db
}

// waiting waits until a statement of the database has been at work for so long that it must be waiting for a row.
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

// snapshots reports whether the server has snapshot isolation, as MariaDB has by default from 11.8 on. A transaction that is
// serializable is stale there if it had to wait.
func snapshots(t testing.TB, db *sql.DB) bool {
	t.Helper()
	var name, value string
	err := db.QueryRowContext(timely(t), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&name, &value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return value == "ON"
}

// lockAnew locks in a transaction, or in a new one for as long as that is stale.
func lockAnew(t testing.TB, db *sql.DB, tx *sql.Tx, name string) (*sql.Tx, error) {
	t.Helper()
	err := LockTx(timely(t), tx, name)
	for errors.Is(err, ErrStale) {
		_ = tx.Rollback()
		tx = begin(t, db, sql.LevelSerializable)
		err = LockTx(timely(t), tx, name)
	}
	return tx, err
}

func TestLockTx(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		level sql.IsolationLevel
		end   func(tx *sql.Tx) error
	}{
		{"commit", sql.LevelReadCommitted, (*sql.Tx).Commit},
		{"rollback", sql.LevelReadCommitted, (*sql.Tx).Rollback},
		{"repeatable read", sql.LevelRepeatableRead, (*sql.Tx).Commit},
		{"serializable", sql.LevelSerializable, (*sql.Tx).Commit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := orders(t)
			first, second := begin(t, db, tt.level), begin(t, db, tt.level)
			for range 2 { // again is no wait
				if err := LockTx(timely(t), first, "order 1"); err != nil {
					t.Fatal(err)
				}
			}
			if err := LockTx(timely(t), begin(t, db, tt.level), "order 2"); err != nil {
				t.Errorf("another name: %v; want nil", err)
			}
			locked := make(chan error, 1)
			go func() { locked <- LockTx(timely(t), second, "order 1") }()
			waiting(t, db)
			if err := tt.end(first); err != nil {
				t.Fatal(err)
			}
			var want error
			if tt.level == sql.LevelSerializable && snapshots(t, db) {
				want = ErrStale
			}
			if err := <-locked; !errors.Is(err, want) {
				t.Errorf("lock after %s = %v; want %v", tt.name, err, want)
			}
		})
	}
}

// Whoever pays reads first whether the order is paid. With the lock, only one of many does; each of them sees what the
// one before it has written, at every isolation.
func TestLockTxPayOnce(t *testing.T) {
	t.Parallel()
	snapshots := snapshots(t, raw(t, server, ""))
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, locks := range []bool{true, false} {
			if !locks && (level == sql.LevelSerializable || level == sql.LevelRepeatableRead && snapshots) {
				continue // the server itself refuses it
			}
			t.Run(level.String()+map[bool]string{true: "", false: " without the lock"}[locks], func(t *testing.T) {
				t.Parallel()
				db := orders(t)
				const payers = 8
				var ready, done sync.WaitGroup
				ready.Add(payers)
				for range payers {
					done.Go(func() {
						tx := begin(t, db, level)
						defer func() { _ = tx.Rollback() }()
						if locks {
							ready.Done()
							ready.Wait()
							var err error
							if level == sql.LevelSerializable && snapshots {
								tx, err = lockAnew(t, db, tx, "order 1")
							} else {
								err = LockTx(timely(t), tx, "order 1")
							}
							if err != nil {
								t.Errorf("lock = %v; want nil", err)
								return
							}
						}
						var paid int
						row := tx.QueryRowContext(timely(t), "SELECT paid FROM orders WHERE id = 1")
						if err := row.Scan(&paid); err != nil {
							t.Errorf("read: %v", err)
						}
						if !locks {
							ready.Done()
							ready.Wait() // all have read before one writes
						}
						if paid == 0 {
							const pay = "UPDATE orders SET paid = paid + 1 WHERE id = 1"
							if _, err := tx.ExecContext(timely(t), pay); err != nil {
								t.Errorf("pay: %v", err)
							}
						}
						if err := tx.Commit(); err != nil {
							t.Errorf("commit: %v", err)
						}
					})
				}
				done.Wait()
				var paid int
				if err := db.QueryRowContext(timely(t), "SELECT paid FROM orders WHERE id = 1").Scan(&paid); err != nil {
					t.Fatal(err)
				}
				if locks && paid != 1 {
					t.Errorf("the order was paid %d times; want once", paid)
				}
				if !locks && paid == 1 {
					t.Error("the order was paid once without the lock: the test proves nothing")
				}
			})
		}
	}
}

// A transaction that has read before it waits sees what was there then. It must be told, and only it.
func TestLockTxStale(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		level      sql.IsolationLevel
		known      bool // the lock has been used before
		interferes bool // another has the lock in between
		want       error
	}{
		{"another had it", sql.LevelRepeatableRead, true, true, ErrStale},
		{"another had it first", sql.LevelRepeatableRead, false, true, ErrStale},
		{"nobody had it", sql.LevelRepeatableRead, true, false, nil},
		{"read committed", sql.LevelReadCommitted, true, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := orders(t)
			use := func() {
				tx := begin(t, db, sql.LevelReadCommitted)
				if err := errors.Join(LockTx(timely(t), tx, "order 1"), tx.Commit()); err != nil {
					t.Fatal(err)
				}
			}
			if tt.known {
				use()
			}
			late := begin(t, db, tt.level)
			var paid int
			if err := late.QueryRowContext(timely(t), "SELECT paid FROM orders WHERE id = 1").Scan(&paid); err != nil {
				t.Fatal(err)
			}
			if tt.interferes {
				use()
			}
			if err := LockTx(timely(t), late, "order 1"); !errors.Is(err, tt.want) {
				t.Errorf("lock = %v; want %v", err, tt.want)
			}
		})
	}
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
