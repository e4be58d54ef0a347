package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/advisory"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// LockTx waits until the caller's transaction has the lock of a name. The transaction keeps the lock until it commits or
// rolls back, also to a savepoint; see below. LockTx takes no lease, so nothing is renewed and nothing runs out: if the
// connection dies, so do lock and writes together. It needs no token, as long as all data under the lock are in this
// database, and are read and written in this transaction.
//
// The lock excludes every LockTx, [LockSQLTx] and store with mode=session on the same name, in one database. It does not
// exclude claims in tables. It is an advisory lock on 64 bits of the name's SHA-256, so once in a very long while two names
// may wait for each other. The same transaction may take it again.
//
// The transaction must be read committed: at another level it would go on to read data from before it had the lock. Two
// transactions that lock several names in different orders wait for each other, and PostgreSQL ends one with an error. After
// an error the transaction must be rolled back. The wait ends with ctx.
//
// The lock ends early, and the transaction goes on without it and without an error, if
//
//   - ROLLBACK TO SAVEPOINT goes back to a savepoint that is older than the lock, as nested transactions of pgx and ORMs do;
//   - a statement ends the transaction, and not its object: COMMIT or ROLLBACK, with AND CHAIN too, or a procedure.
//
// LockTx cannot notice this later. So lock before the first savepoint, or lock again after the rollback, and then read the
// protected data again.
//
// While LockTx waits, the snapshot of its statement stays open. Until the wait ends, CREATE INDEX CONCURRENTLY of other
// sessions waits for it, and VACUUM removes no row that was deleted since. So a transaction should bound the wait by ctx or
// by SET LOCAL lock_timeout = '2s', and be tried again from the beginning. A program that holds the lock must not wait for
// such a statement. A store with mode=session waits in short statements and delays nobody.
func LockTx(ctx context.Context, tx pgx.Tx, name string) error {
	if err := driver.CheckName(name); err != nil {
		return err
	}
	var isolation string
	err := tx.QueryRow(ctx, lockTx, link.Plain, advisory.OlderKey(name), advisory.Key(name)).Scan(&isolation)
	if err != nil {
		return fmt.Errorf("lock %q in the transaction: %w", name, err)
	}
	return readCommitted(isolation)
}

// LockSQLTx is [LockTx] for a transaction of database/sql, by any driver of PostgreSQL.
func LockSQLTx(ctx context.Context, tx *sql.Tx, name string) error {
	if err := driver.CheckName(name); err != nil {
		return err
	}
	var isolation string
	if err := tx.QueryRowContext(ctx, lockTx, advisory.OlderKey(name), advisory.Key(name)).Scan(&isolation); err != nil {
		return fmt.Errorf("lock %q in the transaction: %w", name, err)
	}
	return readCommitted(isolation)
}

// lockTx checks the isolation first, so as not to wait in vain. It locks both keys, the older one first, so that two
// transactions cannot each have one and wait for the other.
const lockTx = `SELECT CASE current_setting('transaction_isolation') WHEN 'read committed'
THEN pg_advisory_xact_lock($1)::text || pg_advisory_xact_lock($2)::text || 'read committed'
ELSE current_setting('transaction_isolation') END`

func readCommitted(isolation string) error {
	if isolation != "read committed" {
		return errors.New("the transaction is " + isolation +
			": a lock in it needs read committed, to see what was written before")
	}
	return nil
}
