package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/stilelock/stile/guard"
)

// GuardTx makes a [guard.Tx] of a transaction of pgx, for [guard.Table] and [guard.Column].
func GuardTx(tx pgx.Tx) guard.Tx { return guardTx{tx} }

type guardTx struct{ tx pgx.Tx }

// Run implements [guard.Tx].
func (t guardTx) Run(ctx context.Context, s *guard.Statement) (n int64, err error) {
	err = t.tx.QueryRow(ctx, s.Text, s.Args...).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		err = sql.ErrNoRows // pgx may not wrap it in its own error
	}
	return n, err
}
