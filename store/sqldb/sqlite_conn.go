package sqldb

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
)

// A Conn is one connection to SQLite, which keeps the statements that it has prepared. It is used by one call at a time.
// Its errors have a method Code with SQLite's result code, or SQLite's own message.
type Conn interface {
	// Prepare prepares a statement.
	Prepare(text string) error

	// Exec runs a statement with these arguments, which are strings, ints, int64s and bools, and drops its result.
	Exec(text string, args ...any) error

	// Query passes each row of a statement to a function until that returns false or an error. The function reads the
	// columns into pointers to strings, ints, int64s and bools, and makes no other use of the connection.
	Query(text string, args []any, each func(scan func(into ...any) error) (more bool, err error)) error

	// Close closes the connection for good, which undoes a transaction that is open on it.
	Close() error
}

// A Logged is a [Conn] that leaves it to the driver to write the log back to the database. Other connections write it back
// themselves, as SQLite does by default.
type Logged interface {
	Conn

	// Pages is how many pages the log had after the last commit of this connection.
	Pages() int
}

// A pooled is a [Conn] of database/sql.
type pooled struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// connecting returns the function that takes connections from a pool.
func connecting(db *sql.DB) func(context.Context) (Conn, error) {
	return func(ctx context.Context) (Conn, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		return &pooled{conn, map[string]*sql.Stmt{}}, nil
	}
}

// stmt returns the prepared statement of a text.
func (p *pooled) stmt(text string) (*sql.Stmt, error) {
	if stmt := p.stmts[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := p.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	p.stmts[text] = stmt
	return stmt, nil
}

// Prepare implements [Conn].
func (p *pooled) Prepare(text string) error {
	_, err := p.stmt(text)
	return err
}

// Exec implements [Conn].
func (p *pooled) Exec(text string, args ...any) error {
	stmt, err := p.stmt(text)
	if err == nil {
		_, err = stmt.ExecContext(context.Background(), args...)
	}
	return err
}

// Query implements [Conn].
func (p *pooled) Query(text string, args []any, each func(scan func(...any) error) (bool, error)) error {
	stmt, err := p.stmt(text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := each(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// Close implements [Conn]. The pool does not take the connection back, since its pragmas differ.
func (p *pooled) Close() error {
	for _, stmt := range p.stmts {
		stmt.Close()
	}
	_ = p.conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // the error is ErrBadConn itself
	return p.conn.Close()
}
