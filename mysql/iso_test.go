package mysql

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// At snapshot isolation, which is MariaDB's default from 11.8 on, a transaction that locks first gets the lock after another
// that had it, and one that read before is told that it is stale. A serializable one has read as soon as it begins: it is
// stale if it had to wait for anything, and the next one is not.
func TestLockTxAtSnapshotIsolation(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t, "loose_innodb_snapshot_isolation=ON")
	if db := raw(t, s, ""); maria(t, db) { // MySQL has none, and the same is to be so
		mustExec(t, db, "SET SESSION innodb_snapshot_isolation = ON")
	}
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			name := database(t, s)
			tidied(t, open(t, "mysql://root@"+s.Addr+"/"+name))
			db := raw(t, s, name)
			mustExec(t, db, "CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB; INSERT INTO orders VALUES (1)")
			for _, there := range []bool{false, true} { // whether the row of the lock is there at first
				first, second := begin(t, db, level), begin(t, db, level)
				if err := LockTx(timely(t), first, "order 1"); err != nil {
					t.Fatal(err)
				}
				late := begin(t, db, level)
				if level != sql.LevelSerializable {
					if _, err := late.ExecContext(timely(t), "SELECT * FROM orders"); err != nil {
						t.Fatal(err)
					}
				}
				locked := make(chan error, 1)
				go func() { locked <- LockTx(timely(t), second, "order 1") }()
				waiting(t, db)
				if err := first.Commit(); err != nil {
					t.Fatal(err)
				}
				err := <-locked
				if level == sql.LevelSerializable && errors.Is(err, ErrStale) {
					_ = second.Rollback()
					second = begin(t, db, level)
					err = LockTx(timely(t), second, "order 1")
				}
				if err != nil {
					t.Errorf("the row was there: %v; a transaction that locks first = %v; want nil", there, err)
				}
				if err := second.Commit(); err != nil {
					t.Fatal(err)
				}
				if level == sql.LevelRepeatableRead {
					if err := LockTx(timely(t), late, "order 1"); !errors.Is(err, ErrStale) {
						t.Errorf("the row was there: %v; one that has read before = %v; want ErrStale", there, err)
					}
				}
				_ = late.Rollback()
			}
		})
	}
}
