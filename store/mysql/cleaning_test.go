package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// rowsIn returns the number of rows in a table.
func rowsIn(t testing.TB, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(timely(t), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// ago makes all rows of the tables older by a time.
func ago(t testing.TB, db *sql.DB, by time.Duration) {
	t.Helper()
	n := by.Microseconds()
	mustExec(t, db, fmt.Sprintf(""+
		"UPDATE stile_claim SET since = since - %[1]d, ends = ends - %[1]d, ticket = ticket - %[1]d; "+
		"UPDATE stile_name SET since = since - %[1]d, ends = IF(ends > 0, ends - %[1]d, 0), "+
		"last = last - %[1]d, head = head - %[1]d; "+
		"UPDATE stile_tx SET turn = IF(turn < 0, turn + %[1]d, turn - %[1]d)", n))
}

// tidied waits until a driver has cleaned for the first time, right after it was opened. On a busy machine a cleaning may
// fail; it is tried again after 1, 2, 4 ... seconds.
func tidied(t testing.TB, d *Driver) {
	t.Helper()
	servertest.Within(t, time.Minute, "the first client has cleaned", func() bool {
		due, err := d.store.due(timely(t), cleanEvery)
		if err != nil {
			t.Logf("whether it is due: %v", err)
		}
		return err == nil && !due
	})
}

// Among short-lived jobs, one cleans if none has cleaned for an hour.
func TestJobsClean(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	url, db := "mysql://root@"+server.Addr+"/"+name, raw(t, server, name)
	d := open(t, url)
	tidied(t, d)
	c := claim("idle", "c")
	enter(t, d, c)
	leave(t, d, c)
	ago(t, db, 2*time.Hour)
	open(t, url)
	servertest.Until(t, "the idle name is gone", func() bool { return rowsIn(t, db, "stile_name") == 0 })
}

// Rows of LockTx are deleted when nobody has locked them for long, and never while a transaction has one.
func TestCleanTx(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	db := raw(t, server, name)
	d := open(t, "mysql://root@"+server.Addr+"/"+name)
	tidied(t, d)
	for i := range 5 {
		tx := begin(t, db, sql.LevelReadCommitted)
		if err := LockTx(timely(t), tx, fmt.Sprint("order ", i)); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	held := begin(t, db, sql.LevelReadCommitted)
	if err := LockTx(timely(t), held, "order 0"); err != nil {
		t.Fatal(err)
	}
	later := func(name string, by time.Duration) {
		mustExec(t, db, fmt.Sprintf("UPDATE stile_tx SET turn = IF(turn < 0, turn + %[1]d, turn - %[1]d) "+
			"WHERE `hash` = %[2]v", by.Microseconds(), keyOf(name)))
	}
	for _, tt := range []struct{ looked, left int }{{4, 6}, {3, 3}} { // before the second time, order 1 was used
		for i := 1; i < 5; i++ {
			later(fmt.Sprint("order ", i), 25*time.Hour)
		}
		if tt.left == 3 {
			tx := begin(t, db, sql.LevelReadCommitted)
			if err := LockTx(timely(t), tx, "order 1"); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := d.store.cleanTx(timely(t), cleanTxs, 100); err != nil || n != tt.looked {
			t.Errorf("cleaning looks at %d rows, %v; want %d", n, err, tt.looked)
		}
		if n := rowsIn(t, db, "stile_tx"); n != tt.left {
			t.Errorf("%d rows are left; want %d", n, tt.left)
		}
	}
	if err := held.Commit(); err != nil {
		t.Errorf("the transaction that had a lock meanwhile: %v", err)
	}
}

// A transaction began to read, then another had the lock, then the row of the lock was deleted. The first must notice.
func TestStaleAfterCleaning(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	db := raw(t, server, name)
	d := open(t, "mysql://root@"+server.Addr+"/"+name)
	mustExec(t, db, "CREATE TABLE orders (id INT PRIMARY KEY, paid INT NOT NULL) ENGINE = InnoDB; "+
		"INSERT INTO orders VALUES (1, 0)")
	tidied(t, d)
	const day = "24 * 3600 * 1000000"
	mustExec(t, db, "UPDATE stile_tx SET turn = turn - 3 * "+day) // the last cleaning was three days ago
	late, fresh := begin(t, db, sql.LevelRepeatableRead), begin(t, db, sql.LevelRepeatableRead)
	if _, err := late.ExecContext(timely(t), "SELECT paid FROM orders"); err != nil {
		t.Fatal(err)
	}
	pays := begin(t, db, sql.LevelRepeatableRead)
	if err := LockTx(timely(t), pays, "order 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := pays.ExecContext(timely(t), "UPDATE orders SET paid = 1"); err != nil {
		t.Fatal(err)
	}
	if err := pays.Commit(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		mustExec(t, db, "UPDATE stile_tx SET turn = IF(turn < 0, turn + 2 * "+day+", turn - 2 * "+day+") WHERE name <> ''")
		if n, err := d.store.cleanTx(timely(t), cleanTxs, 100); err != nil || n != 1 {
			t.Fatalf("cleaning = %d, %v; want 1", n, err)
		}
	}
	if n := rowsIn(t, db, "stile_tx"); n != 1 {
		t.Fatalf("%d rows are left; want the note", n)
	}
	if err := LockTx(timely(t), late, "order 1"); !errors.Is(err, ErrStale) {
		t.Errorf("lock of a transaction that has read before = %v; want ErrStale", err)
	}
	if err := late.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := LockTx(timely(t), fresh, "order 1"); err != nil {
		t.Errorf("lock of one that has not = %v; want nil", err)
	}
}
