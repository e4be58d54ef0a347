package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A fence is the statements that work on the marks of one table. Both lock the row of the mark until the transaction
// ends, so that nobody raises it between the answer and the commit.
type fence struct {
	raise func(key any, token int64) *Statement // yields the mark, after it was raised if it was lower
	check func(key any) *Statement              // yields the mark
}

func (f *fence) raised(ctx context.Context, tx Tx, name string, key any, token int64) error {
	mark, err := f.ask(ctx, tx, name, token, func() *Statement { return f.raise(key, token) })
	switch {
	case err == nil && mark > token:
		return &StaleError{name, token, mark}
	case err == nil && mark < token:
		return fmt.Errorf("guard: %q: %w column: it holds %d where %d was written, so that it fences nothing: it must be a 64-bit integer", name, ErrInvalid, mark, token)
	}
	return err
}

func (f *fence) checked(ctx context.Context, tx Tx, name string, key any, token int64) error {
	mark, err := f.ask(ctx, tx, name, token, func() *Statement { return f.check(key) })
	if err != nil {
		return err
	}
	return Judge(name, token, mark)
}

func (f *fence) ask(ctx context.Context, tx Tx, name string, token int64, s func() *Statement) (int64, error) {
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
