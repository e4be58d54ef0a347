package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"
)

// LockTx fails in a transaction that a statement has committed: the lock would be gone at once.
func TestLockTxOfEndedTransaction(t *testing.T) {
	t.Parallel()
	db := orders(t)
	for _, statement := range []string{
		"CREATE TABLE made (id INT)", "ALTER TABLE orders COMMENT 'x'", "TRUNCATE orders", "LOCK TABLES orders WRITE, stile_tx WRITE", "COMMIT", "ROLLBACK",
	} {
		tx := begin(t, db, sql.LevelReadCommitted)
		if err := LockTx(timely(t), tx, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(timely(t), statement); err != nil {
			t.Fatal(statement, err)
		}
		if err := LockTx(timely(t), tx, "x"); !errors.Is(err, errOver) {
			t.Errorf("lock after %s = %v; want %v", statement, err, errOver)
		}
		_, _ = tx.ExecContext(timely(t), "UNLOCK TABLES")
		_ = tx.Rollback()
	}
}

// A rollback to a savepoint that is older than the lock can end the lock: if nothing was read before the savepoint, the
// server rolls back all of InnoDB's work, and if nobody had locked the name before, its row goes. The documentation says so.
func TestLockTxAndSavepoints(t *testing.T) {
	t.Parallel()
	db := orders(t)
	for _, c := range []struct {
		name                string
		known, before, free bool
	}{
		{"savepoint first, a new name", false, true, true},
		{"savepoint first, a known name", true, true, true},
		{"a read, savepoint, a known name", true, true, false},
		{"a read, savepoint, a new name", false, true, true},
		{"lock first, a new name", false, false, false},
		{"lock first, a known name", true, false, false},
	} {
		if c.known {
			tx := begin(t, db, sql.LevelReadCommitted)
			if err := errors.Join(LockTx(timely(t), tx, c.name), tx.Commit()); err != nil {
				t.Fatal(err)
			}
		}
		tx := begin(t, db, sql.LevelReadCommitted)
		save := func() error { _, err := tx.ExecContext(timely(t), "SAVEPOINT mine"); return err }
		lock := func() error { return LockTx(timely(t), tx, c.name) }
		steps := []func() error{lock, save}
		if c.before {
			steps = []func() error{save, lock}
		}
		if strings.HasPrefix(c.name, "a read") {
			steps = append([]func() error{func() error { _, err := tx.ExecContext(timely(t), "DO (SELECT paid FROM orders LIMIT 1)"); return err }}, steps...)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.ExecContext(timely(t), "ROLLBACK TO SAVEPOINT mine"); err != nil {
			t.Fatal(err)
		}
		other := begin(t, db, sql.LevelReadCommitted)
		ctx, cancel := timely(t), context.CancelFunc(func() {})
		if !c.free {
			ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		}
		err := LockTx(ctx, other, c.name)
		cancel()
		if (err == nil) != c.free || err != nil && !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			t.Errorf("%s: another locks = %v; want that it can: %t", c.name, err, c.free)
		}
		_, _ = other.Rollback(), tx.Rollback()
	}
}
