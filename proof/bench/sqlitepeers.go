//go:build unix

package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

func sqliteVersion(*servertest.Server) string {
	var version string
	db, err := sql.Open("sqlite", ":memory:")
	if err == nil {
		defer db.Close()
		err = db.QueryRowContext(context.Background(), "SELECT sqlite_version()").Scan(&version)
	}
	if err != nil {
		return err.Error()
	}
	return "SQLite " + version
}

// openSQLiteBare is the bare limit of a lock in SQLite: a row comes and goes.
func openSQLiteBare(path string, _ time.Duration) (library, error) {
	db, err := sql.Open("sqlite", "file:"+path+".bare?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(contentionSize)
	l, ctx := &sqliteLibrary{db: db}, context.Background()
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS lock (name TEXT PRIMARY KEY, owner TEXT NOT NULL) STRICT")
	if err == nil {
		l.insert, err = db.PrepareContext(ctx, "INSERT INTO lock (name, owner) VALUES (?, ?)")
	}
	if err == nil {
		l.remove, err = db.PrepareContext(ctx, "DELETE FROM lock WHERE name = ? AND owner = ?")
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return l, nil
}

type sqliteLibrary struct {
	db             *sql.DB
	insert, remove *sql.Stmt
}

func (l *sqliteLibrary) mutex(name string) mutex { return sqliteMutex{l, name} }
func (l *sqliteLibrary) close()                  { l.db.Close() }

type sqliteMutex struct {
	l    *sqliteLibrary
	name string
}

func (m sqliteMutex) lock(ctx context.Context) (held, error) {
	_, err := m.l.insert.ExecContext(ctx, m.name, "owner")
	return m, err
}

func (m sqliteMutex) Unlock() error {
	_, err := m.l.remove.ExecContext(context.Background(), m.name, "owner")
	return err
}
