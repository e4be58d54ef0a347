package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// DefaultTable is the name of the table that keeps the marks.
const DefaultTable = "stile_guard"

// A Table keeps the marks of resources in a table of the same database, one row for each resource. Its methods may be called
// at once.
type Table struct {
	fence
	schema, probe string

	mu   sync.Mutex // guards made
	made bool
}

// NewTable returns a guard that keeps its marks in a table of that name, or in [DefaultTable] if the name is empty. The name
// may have a schema before it, as in "shop.guard". NewTable does not ask the database. It takes the name as it is written;
// the error is [ErrInvalid] if the name has other characters than letters, digits and '_'.
func NewTable(d Dialect, name string) (*Table, error) {
	if name == "" {
		name = DefaultTable
	}
	t := &Table{}
	t.keeps(d, name, "token")
	if err := d.quoteAll(&name); err != nil {
		return nil, err
	}
	t.probe = "SELECT token FROM " + name + " WHERE 1 = 0"
	switch d {
	case PostgreSQL:
		t.schema = "CREATE TABLE IF NOT EXISTS " + name +
			` (resource text COLLATE "C" PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))`
		raise := "INSERT INTO " + name + " AS g (resource, token) VALUES ($1, $2)" +
			" ON CONFLICT (resource) DO UPDATE SET token = GREATEST(g.token, EXCLUDED.token) RETURNING " + exact("token")
		check := "SELECT token FROM " + name + " WHERE resource = $1 FOR NO KEY UPDATE"
		t.raise = func(key any, token int64) *Statement { return &Statement{Text: raise, Args: []any{key, token}} }
		t.check = func(key any) *Statement { return &Statement{Text: check, Args: []any{key}} }
	case MySQL:
		t.schema = "CREATE TABLE IF NOT EXISTS " + name + // bytes: every collation of text takes some names for the same
			" (resource varbinary(255) PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB"
		raise := "INSERT INTO " + name + " (resource, token) VALUES (?, LAST_INSERT_ID(?))" +
			" ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))"
		check := "SELECT token FROM " + name + " WHERE resource = ? FOR UPDATE"
		t.raise = func(key any, token int64) *Statement {
			return &Statement{Text: raise, Args: []any{key, token, token}, InsertID: true}
		}
		t.check = func(key any) *Statement { return &Statement{Text: check, Args: []any{key}} }
	case SQLite:
		t.schema = "CREATE TABLE IF NOT EXISTS " + name +
			" (resource TEXT PRIMARY KEY, token INTEGER NOT NULL CHECK (token > 0)) WITHOUT ROWID"
		raise := "INSERT INTO " + name + " AS g (resource, token) VALUES (?, ?)" +
			" ON CONFLICT (resource) DO UPDATE SET token = max(g.token, excluded.token) RETURNING token"
		check := "UPDATE " + name + " SET token = token WHERE resource = ? RETURNING token" // waits for the write lock
		t.raise = func(key any, token int64) *Statement { return &Statement{Text: raise, Args: []any{key, token}} }
		t.check = func(key any) *Statement { return &Statement{Text: check, Args: []any{key}} }
	}
	return t, nil
}

// Schema returns the SQL that creates the table. A database user that works with the guard needs SELECT, INSERT and UPDATE
// on it.
func (t *Table) Schema() string { return t.schema }

// Create creates the table unless it exists. Many processes may do so at once. A user without the right to create tables
// gets an error only if the table is missing.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made {
		return nil
	}
	there := func() error {
		rows, err := db.QueryContext(ctx, t.probe)
		if err != nil {
			return err
		}
		return errors.Join(rows.Err(), rows.Close())
	}
	if there() != nil {
		// If several processes create it at once, some of them get an error although the table is made.
		if _, err := db.ExecContext(ctx, t.schema); err != nil && there() != nil {
			return fmt.Errorf("guard: the table is missing and cannot be made: %w", err)
		}
	}
	t.made = true
	return nil
}

// Do raises the token in a transaction of its own and then runs work in that transaction. Prefer it to the other methods. No
// earlier holder can change the data that work reads, and its writes are committed together with the mark or not at all. Do
// creates the table if it is missing. If work returns an error, Do rolls the transaction back, including the raise.
//
// As always with databases, after an error of the commit find out whether it was committed before you run the work again.
func (t *Table) Do(ctx context.Context, db *sql.DB, resource string, token int64, work func(tx *sql.Tx) error) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	if err := t.Create(ctx, db); err != nil {
		return err
	}
	return do(ctx, db, func(tx Tx) error { return t.Raise(ctx, tx, resource, token) }, work)
}

// Raise shows a token to a resource in the caller's transaction, by one statement. Call it before everything that the
// transaction reads. The row stays locked until the transaction ends, so other transactions that raise or check wait. So the
// same transaction needs no further check. The mark lasts if the transaction is committed. If the column cannot keep the
// token exactly, the error is [ErrInvalid] or the database's own. On MySQL the first Raise asks for the column's type by a
// second statement.
//
// A rollback to a savepoint that is older than the raise undoes the raise, and PostgreSQL unlocks the row; the transaction
// goes on. Then raise again, and read again. [Table.Check] returns [ErrNotRaised] or [ErrStale] until then, unless the
// token was raised before.
func (t *Table) Raise(ctx context.Context, tx Tx, resource string, token int64) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	return t.raised(ctx, tx, resource, resource, token)
}

// Check finds out in the caller's transaction, by one statement, whether a token that was raised in an earlier transaction
// is still the mark. The answer holds until the transaction ends: other transactions that raise wait. On [ErrStale] and
// [ErrNotRaised] the caller must roll back.
func (t *Table) Check(ctx context.Context, tx Tx, resource string, token int64) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	err := t.checked(ctx, tx, resource, resource, token)
	if errors.Is(err, sql.ErrNoRows) {
		return Judge(resource, token, 0)
	}
	return err
}

// Marks returns the table's marks for a [Handler], each raised in a transaction of its own.
func (t *Table) Marks(db *sql.DB) Marks { return tableMarks{t, db} }

type tableMarks struct {
	t  *Table
	db *sql.DB
}

func (m tableMarks) Raise(ctx context.Context, resource string, token int64) error {
	return m.t.Do(ctx, m.db, resource, token, func(*sql.Tx) error { return nil })
}
