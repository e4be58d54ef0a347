package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A Column keeps the mark of each row of a table in a column of that row, so that no other table is needed. The column is a
// 64-bit integer; NULL and 0 mean that there is no mark yet. Its methods may be called at once.
type Column struct{ fence }

// ErrNoRow says that there is no row with the key. It is [sql.ErrNoRows].
var ErrNoRow = fmt.Errorf("there is no such row: %w", sql.ErrNoRows)

// NewColumn returns a guard that keeps marks in the column token of a table. The column key, which must be unique,
// identifies the rows. NewColumn does not ask the database. It takes the names as they are written; the error is
// [ErrInvalid] if they have other characters than letters, digits and '_', except for the dot between a schema and the
// table.
func NewColumn(d Dialect, table, key, token string) (*Column, error) {
	c := &Column{}
	c.keeps(d, table, token)
	if err := d.quoteAll(&table, &key, &token); err != nil {
		return nil, err
	}
	where := " WHERE " + key + " = "
	mark := "COALESCE(" + token + ", 0)"
	var raise, check string
	switch d {
	case PostgreSQL:
		raise = "UPDATE " + table + " SET " + token + " = GREATEST(" + mark + ", CAST($2 AS bigint))" + where + "$1 RETURNING " + exact(token)
		check = "SELECT " + mark + " FROM " + table + where + "$1 FOR NO KEY UPDATE"
	case MySQL:
		raise = "UPDATE " + table + " SET " + token + " = LAST_INSERT_ID(GREATEST(" + mark + ", ?))" + where + "?"
		check = "SELECT " + mark + " FROM " + table + where + "? FOR UPDATE"
	case SQLite:
		raise = "UPDATE " + table + " SET " + token + " = max(" + mark + ", ?2)" + where + "?1 RETURNING " + token
		check = "UPDATE " + table + " SET " + token + " = " + token + where + "?1 RETURNING " + mark
	}
	c.raise = func(key any, token int64) *Statement {
		if d == MySQL {
			return &Statement{Text: raise, Args: []any{token, key}, InsertID: true}
		}
		return &Statement{Text: raise, Args: []any{key, token}}
	}
	c.check = func(key any) *Statement { return &Statement{Text: check, Args: []any{key}} }
	return c, nil
}

// Do raises the token in a transaction of its own and then runs work in that transaction, as [Table.Do] does. The key is the
// row's value in the key column. The error is [ErrNoRow] if the row is missing.
func (c *Column) Do(ctx context.Context, db *sql.DB, key any, token int64, work func(tx *sql.Tx) error) error {
	return do(ctx, db, func(tx Tx) error { return c.Raise(ctx, tx, key, token) }, work)
}

// Raise shows a token to a row in the caller's transaction, by one statement. Call it before everything that the transaction
// reads. The row stays locked until the transaction ends. The error is [ErrNoRow] if the row is missing. If the column
// cannot keep the token exactly, the error is [ErrInvalid] or the database's own. On MySQL the first Raise asks for the
// column's type by a second statement.
func (c *Column) Raise(ctx context.Context, tx Tx, key any, token int64) error {
	name := c.name(key)
	return c.found(name, c.raised(ctx, tx, name, key, token))
}

// Check finds out in the caller's transaction, by one statement, whether a token that was raised in an earlier transaction
// is still the mark of a row. The row stays locked until the transaction ends. The error is [ErrNoRow] if the row is
// missing.
func (c *Column) Check(ctx context.Context, tx Tx, key any, token int64) error {
	name := c.name(key)
	return c.found(name, c.checked(ctx, tx, name, key, token))
}

// name returns the name of a row for errors.
func (c *Column) name(key any) string {
	if b, ok := key.([]byte); ok {
		return fmt.Sprintf("%s/%x", c.table, b)
	}
	return fmt.Sprintf("%s/%v", c.table, key)
}

func (c *Column) found(name string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("guard: %q: %w", name, ErrNoRow)
	}
	return err
}
