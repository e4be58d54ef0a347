package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// ErrStale says that a transaction has a lock, but would still read data from before it got the lock.
var ErrStale = errors.New("the transaction had read before it had the lock, and would go on to see what was there then: " +
	"lock first, or begin it as read committed")

var errOver = errors.New("the transaction is over, and with it each lock that it had: " +
	"a statement such as CREATE TABLE has committed it, or the server has rolled it back")

// LockTx waits until the caller's transaction has the lock of a name. The transaction keeps the lock until it commits or
// rolls back. LockTx takes no lease, so nothing is renewed and nothing runs out: if the connection dies, so do lock and
// writes together. It needs no token, as long as all data under the lock are in this database, and are read and written in
// this transaction.
//
// The lock ends early in three ways. A statement can commit the transaction: each that changes a table or a right (CREATE,
// ALTER, DROP, TRUNCATE, RENAME, GRANT), and LOCK TABLES, BEGIN and SET autocommit = 1, also inside a procedure. The server
// can roll the transaction back and keep the connection, as after a deadlock. ROLLBACK TO SAVEPOINT can end the lock if the
// savepoint was set before LockTx: it does if the transaction had read nothing before the savepoint, or if nobody had locked
// that name before. So call LockTx before any savepoint, and end the transaction after any error. After the first two ways
// the next LockTx in that transaction returns an error.
//
// The lock is a row of the table stile_tx in the transaction's database, so it excludes all others that lock the same name
// by LockTx there. It does not exclude claims. Opening a store makes the table, and so does [Schema]; a [Driver]'s own
// LockTx is for tables with another prefix. The same transaction may take the lock again.
//
// A repeatable read transaction, which is the default, sees everything as it was at its first read. So LockTx should come
// before that; if it came too late and another transaction has had the lock since, the error is [ErrStale]. A lock reads
// too, so a transaction that locks several names needs read committed. On a server with snapshot isolation
// (innodb_snapshot_isolation, the default of MariaDB 11.8) a serializable transaction reads as soon as it begins: there the
// error is [ErrStale] whenever LockTx had to wait, and the caller must begin a new transaction. Two transactions that lock
// the same names in different orders wait for each other, and the server ends one with an error. If several transactions
// wait for a name that was never locked before, and the first one is rolled back, the server may end some of them too. After
// an error the transaction must be rolled back. The wait ends with ctx, or after the server's innodb_lock_wait_timeout.
func LockTx(ctx context.Context, tx *sql.Tx, name string) error {
	return place(DefaultPrefix).lockTx(ctx, tx, name)
}

// LockTx is the function LockTx for the tables of this driver.
func (d *Driver) LockTx(ctx context.Context, tx *sql.Tx, name string) error {
	return d.store.place.lockTx(ctx, tx, name)
}

func (p place) lockTx(ctx context.Context, tx *sql.Tx, name string) error {
	if err := driver.CheckName(name); err != nil {
		return err
	}
	if err := p.lockRow(ctx, tx, name); err != nil {
		return fmt.Errorf("lock %q in the transaction: %w", name, err)
	}
	return nil
}

func (p place) lockRow(ctx context.Context, tx *sql.Tx, name string) error {
	// Outside a transaction the server forgets a savepoint at once. If the savepoint exists at the end, so does the lock.
	if _, err := tx.ExecContext(ctx, "SAVEPOINT `stile_lock`"); err != nil {
		return err
	}
	k := keyOf(name)
	// An insert that finds the row locks it, and so do all later inserts in this transaction.
	_, err := tx.ExecContext(ctx, p.fill("INSERT INTO `{prefix}tx` (`hash`, `name`, `turn`) "+
		"VALUES ("+k.String()+", "+quote([]byte(name))+", 0) ON DUPLICATE KEY UPDATE `turn` = `turn`"))
	if err != nil {
		return late(err)
	}
	var (
		there []byte
		turn  int64
		seen  sql.NullInt64
	)
	row := p.fill("FROM `{prefix}tx` WHERE `hash` = " + k.String())
	if err := tx.QueryRowContext(ctx, "SELECT `name`, `turn` "+row+" FOR UPDATE").Scan(&there, &turn); err != nil {
		return late(err)
	}
	if string(there) != name {
		return fmt.Errorf("%w: the row of the name has another", driver.ErrForeign)
	}
	// A read without a lock sees the row in the same state as everything else that the transaction reads.
	if err := tx.QueryRowContext(ctx, "SELECT `turn` "+row).Scan(&seen); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return late(err)
	}
	if !seen.Valid || seen.Int64 != turn {
		return ErrStale
	}
	if turn == 0 { // this transaction has made the row
		if err := p.afterCleaning(ctx, tx); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, p.fill("UPDATE `{prefix}tx` SET `turn` = GREATEST(`turn` + 1, {clock}) "+
		"WHERE `hash` = "+k.String()))
	if err != nil {
		return late(err)
	}
	if _, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT `stile_lock`"); number(err) == noSavepoint {
		return errOver
	}
	return err
}

// afterCleaning returns ErrStale if the transaction may see a state from before another transaction had the lock, and a
// cleaning has deleted the lock's row since. A row is deleted after a day without a lock, so that state would be at least as
// old, and so would the note of the last cleaning in it. Only a note that looks old is compared with the latest note, since
// this locks the note.
func (p place) afterCleaning(ctx context.Context, tx *sql.Tx) error {
	var (
		seen, is int64
		old      bool
	)
	row := p.fill("FROM `{prefix}tx` WHERE `hash` = " + cleaned.String())
	turn := p.fill(fmt.Sprintf("SELECT `turn`, `turn` < {clock} - %d ", (cleanTxs / 2).Microseconds()))
	err := tx.QueryRowContext(ctx, turn+row).Scan(&seen, &old)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !old {
		return nil
	}
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT `turn` "+row+" LOCK IN SHARE MODE").Scan(&is)
	}
	if err == nil && seen != is {
		return ErrStale
	}
	return late(err)
}

// late returns ErrStale for the server's own error at snapshot isolation: the row to be locked has changed since the
// transaction began to read.
func late(err error) error {
	if number(err) == recordChanged {
		return fmt.Errorf("%w (%w)", ErrStale, err)
	}
	return err
}
