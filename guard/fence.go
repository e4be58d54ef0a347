package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// A fence has the statements that work on the marks of one table. Both lock the mark's row until the transaction ends, so
// that nobody raises the mark between the answer and the commit.
type fence struct {
	raise func(key any, token int64) *Statement // yields the mark, after raising it if it was lower
	check func(key any) *Statement              // yields the mark
	table string                                // the table, for messages
	token string                                // the table's column of marks

	narrow *Statement  // yields how many columns of that name have another type; nil if the database refuses misfits
	wide   atomic.Bool // narrow has answered 0
}

// keeps sets the table and the column of the marks, with the names as the caller writes them.
func (f *fence) keeps(d Dialect, table, token string) {
	f.table, f.token = table, token
	if d == MySQL {
		f.narrow = narrow(table, token)
	}
}

func (f *fence) raised(ctx context.Context, tx Tx, name string, key any, token int64) error {
	mark, err := f.queryToken(ctx, tx, name, token, func() *Statement { return f.raise(key, token) })
	switch {
	case err == nil && mark == rounded:
		return fmt.Errorf("guard: %q: %w column: PostgreSQL rounds tokens in it, so that it fences nothing: ALTER TABLE %s ALTER %s TYPE bigint",
			name, ErrInvalid, f.table, f.token)
	case err == nil && mark > token:
		return &StaleError{name, token, mark}
	case err == nil && mark < token:
		return fmt.Errorf("guard: %q: %w column: it holds %d where %d was written, so that it fences nothing: it must be a 64-bit integer", name, ErrInvalid, mark, token)
	case err != nil:
		return err
	}
	return f.fits(ctx, tx, name)
}

// fits returns an error if the column has a type for which the server may cut a token, as MySQL does unless it is strict. It
// runs after the raise, which must be the transaction's first read.
func (f *fence) fits(ctx context.Context, tx Tx, name string) error {
	if f.narrow == nil || f.wide.Load() {
		return nil
	}
	n, err := tx.Run(ctx, f.narrow)
	if err != nil {
		return fmt.Errorf("guard: %q: %w", name, err)
	}
	if n > 0 {
		return fmt.Errorf("guard: %q: %w column: MySQL cuts tokens in it, so that it fences nothing: ALTER TABLE %s MODIFY %s BIGINT",
			name, ErrInvalid, f.table, f.token)
	}
	f.wide.Store(true)
	return nil
}

// rounded replaces the mark that PostgreSQL returns if the column's type rounds.
const rounded = -1

// exact returns a column of PostgreSQL, or rounded if its type rounds.
func exact(column string) string {
	return fmt.Sprintf("CASE WHEN pg_typeof(%[1]s + 0) = 'double precision'::regtype THEN %d ELSE %[1]s::bigint END", column, rounded)
}

// narrow returns the statement that asks MySQL for the type of a column.
func narrow(table, column string) *Statement {
	text := "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_NAME = ? AND COLUMN_NAME = ? AND DATA_TYPE <> 'bigint' AND TABLE_SCHEMA = "
	if schema, name, ok := strings.Cut(table, "."); ok {
		return &Statement{Text: text + "?", Args: []any{name, column, schema}}
	}
	return &Statement{Text: text + "DATABASE()", Args: []any{table, column}}
}

func (f *fence) checked(ctx context.Context, tx Tx, name string, key any, token int64) error {
	mark, err := f.queryToken(ctx, tx, name, token, func() *Statement { return f.check(key) })
	if err != nil {
		return err
	}
	return Judge(name, token, mark)
}

func (f *fence) queryToken(ctx context.Context, tx Tx, name string, token int64, s func() *Statement) (int64, error) {
	if err := positive(name, token); err != nil {
		return 0, err
	}
	mark, err := tx.Run(ctx, s())
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("guard: %q: %w", name, err)
	}
	return mark, err
}

// do runs work in a transaction that begins with a raise.
func do(ctx context.Context, db *sql.DB, raise func(tx Tx) error, work func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	if err := raise(SQL(tx)); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}
