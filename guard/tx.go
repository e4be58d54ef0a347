package guard

import (
	"context"
	"database/sql"
)

// A Tx runs the statements of [Table] and [Column] in a transaction of the caller. [SQL] makes a Tx from a transaction of
// database/sql, and GuardTx in package postgres makes one from a transaction of pgx.
type Tx interface {
	// Run runs a statement and returns the number that it yields. It returns [sql.ErrNoRows] if there is none.
	Run(ctx context.Context, s *Statement) (int64, error)
}

// A Statement is an SQL statement that yields one number.
type Statement struct {
	Text     string
	Args     []any
	InsertID bool // the number is the insert id and not in a row; 0 means none; only for MySQL
}

// SQL makes a [Tx] from a transaction of database/sql.
func SQL(tx *sql.Tx) Tx { return sqlTx{tx} }

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Run(ctx context.Context, s *Statement) (n int64, err error) {
	if !s.InsertID {
		err = t.tx.QueryRowContext(ctx, s.Text, s.Args...).Scan(&n)
		return n, err
	}
	result, err := t.tx.ExecContext(ctx, s.Text, s.Args...)
	if err != nil {
		return 0, err
	}
	if n, err = result.LastInsertId(); err == nil && n == 0 {
		err = sql.ErrNoRows
	}
	return n, err
}
