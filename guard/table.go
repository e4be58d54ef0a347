package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// DefaultTable is the name of the table that marks are kept in.
const DefaultTable = "stile_guard"

// A Table keeps the marks of resources in a table of the database that the resources are in, one row for each. Its
// methods may be called at once.
type Table struct {
	fence
	schema, probe string

	mu   sync.Mutex // guards made
	made bool
}

// NewTable returns the guard that keeps its marks in a table of that name, [DefaultTable] if it is empty, which may have a
// schema before it, as in "shop.guard". Nothing is asked of the database; the name is taken as it is written, and the
// error is [ErrInvalid] if it has other characters than letters, digits and '_'.
func NewTable(d Dialect, name string) (*Table, error) {
	if name == "" {
		name = DefaultTable
	}
	if err := d.quoteAll(&name); err != nil {
		return nil, err
	}
	t := &Table{probe: "SELECT token FROM " + name + " WHERE 1 = 0"}
	switch d {
	case PostgreSQL:
		t.schema = "CREATE TABLE IF NOT EXISTS " + name +
			` (resource text COLLATE "C" PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))`
		raise := "INSERT INTO " + name + " AS g (resource, token) VALUES ($1, $2)" +
			" ON CONFLICT (resource) DO UPDATE SET token = GREATEST(g.token, EXCLUDED.token) RETURNING token"
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
		check := "UPDATE " + name + " SET token = token WHERE resource = ? RETURNING token" // it writes, so it waits for the write lock
		t.raise = func(key any, token int64) *Statement { return &Statement{Text: raise, Args: []any{key, token}} }
		t.check = func(key any) *Statement { return &Statement{Text: check, Args: []any{key}} }
	}
	return t, nil
}

// Schema returns the SQL that makes the table. A database user that works with the guard needs SELECT, INSERT and UPDATE
// on it.
func (t *Table) Schema() string { return t.schema }

// Create makes the table unless it is there. Many processes may do so at once. A user who may not create tables gets an
// error only if it is missing.
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
		// Of those who create it at once, some get an error although it is made.
		if _, err := db.ExecContext(ctx, t.schema); err != nil && there() != nil {
			return fmt.Errorf("guard: the table is missing and cannot be made: %w", err)
		}
	}
	t.made = true
	return nil
}

// Do runs work in a transaction of its own, in which the token was raised first: the way to be preferred. So what work
// reads is what no earlier holder can change any more, and what it writes is committed together with the mark or not at
// all. The table is made if it is missing. A work that returns an error is rolled back, its raise too.
//
// Work must not be run again after an error of the commit without looking at what became of it, as always with databases.
func (t *Table) Do(ctx context.Context, db *sql.DB, resource string, token int64, work func(tx *sql.Tx) error) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	if err := t.Create(ctx, db); err != nil {
		return err
	}
	return do(ctx, db, func(tx Tx) error { return t.Raise(ctx, tx, resource, token) }, work)
}

// Raise shows a token to a resource in the caller's transaction, by one statement, which comes before everything that the
// transaction reads. The row stays locked until the transaction ends, so that others who raise or check wait; that makes
// a further check in the same transaction needless. The mark lasts if the transaction is committed.
func (t *Table) Raise(ctx context.Context, tx Tx, resource string, token int64) error {
	if err := Valid(resource, token); err != nil {
		return err
	}
	return t.raised(ctx, tx, resource, resource, token)
}

// Check finds out in the caller's transaction, by one statement, whether a token that was raised in an earlier one is
// still the mark. The answer holds until the transaction ends: others who raise wait. On [ErrStale] and [ErrNotRaised] the
// caller rolls back.
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
