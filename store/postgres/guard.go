package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/stilelock/stile/guard"
)

// GuardTx makes a transaction of pgx one in which tokens can be raised and checked, by [guard.Table] and [guard.Column].
func GuardTx(tx pgx.Tx) guard.Tx { return guardTx{tx} }

type guardTx struct{ tx pgx.Tx }

// Run implements [guard.Tx].
func (t guardTx) Run(ctx context.Context, s *guard.Statement) (n int64, err error) {
	err = t.tx.QueryRow(ctx, s.Text, s.Args...).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		err = sql.ErrNoRows // pgx may not say that its own is that
	}
	return n, err
}
