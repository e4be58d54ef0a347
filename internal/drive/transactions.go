package drive

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
)

// A Database is one in which transactions lock names, by statements of its own.
type Database struct {
	*sql.DB
	Locks func(ctx context.Context, tx *sql.Tx, name string) error
	Me    string // asks for the number of a connection
	Waits string // asks whether the connection with a number waits for a lock
	Kill  string // ends the connection with a number
}

// Number makes the number that the transactions share.
func (d *Database) Number(t testing.TB) {
	t.Helper()
	for _, statement := range []string{"CREATE TABLE shared (number bigint NOT NULL)", "INSERT INTO shared VALUES (0)"} {
		if _, err := d.ExecContext(Timely(t), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// Begin begins a transaction.
func (d *Database) Begin(t testing.TB, level sql.IsolationLevel) (drivertest.Transaction, error) {
	tx, err := d.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		return nil, err
	}
	return d.Transaction(t, &sqlTx{tx, d})
}

// Transaction begins a transaction of a client with its own ways to lock and to run a statement.
func (d *Database) Transaction(t testing.TB, by Tx) (drivertest.Transaction, error) {
	made := &transaction{Tx: by, t: t, d: d}
	err := by.Ask(Timely(t), d.Me, &made.connection)
	return made, err
}

// A Tx is a transaction of some client.
type Tx interface {
	Lock(ctx context.Context, name string) error
	Ask(ctx context.Context, statement string, into *int64) error
	Do(ctx context.Context, statement string) error
	Commit(ctx context.Context) error
	Rollback()
}

// A sqlTx is one of database/sql.
type sqlTx struct {
	tx *sql.Tx
	d  *Database
}

func (x *sqlTx) Lock(ctx context.Context, name string) error { return x.d.Locks(ctx, x.tx, name) }

func (x *sqlTx) Ask(ctx context.Context, statement string, into *int64) error {
	return x.tx.QueryRowContext(ctx, statement).Scan(into)
}

func (x *sqlTx) Do(ctx context.Context, statement string) error {
	_, err := x.tx.ExecContext(ctx, statement)
	return err
}

func (x *sqlTx) Commit(context.Context) error { return x.tx.Commit() }
func (x *sqlTx) Rollback()                    { _ = x.tx.Rollback() } // at the end of a test

// A transaction is one of which the database knows the connection.
type transaction struct {
	Tx
	t          testing.TB
	d          *Database
	connection int64
}

func (x *transaction) Read(ctx context.Context) (n int64, err error) {
	err = x.Ask(ctx, "SELECT number FROM shared", &n)
	return n, err
}

func (x *transaction) Write(ctx context.Context, n int64) error {
	return x.Do(ctx, fmt.Sprint("UPDATE shared SET number = ", n))
}

func (x *transaction) Waits() bool {
	var n int
	if err := x.d.QueryRowContext(Timely(x.t), fmt.Sprintf(x.d.Waits, x.connection)).Scan(&n); err != nil {
		x.t.Fatal(err)
	}
	return n > 0
}

func (x *transaction) Kill() {
	if _, err := x.d.ExecContext(Timely(x.t), fmt.Sprintf(x.d.Kill, x.connection)); err != nil {
		x.t.Fatal(err)
	}
}
