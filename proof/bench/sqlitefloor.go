//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"
)

const sqlitePass = "a bare row, passed on"

// A passLibrary is the bare limit of passing a name from one process to another by rows of an SQLite file. A waiter has a
// row of its own and sleeps in the kernel. A release deletes a row and lets the kernel wake the other. There is no lease,
// no order, and no lost wakeup is made up for.
type passLibrary struct {
	db                   *sql.DB
	insert, look, remove *sql.Stmt
	signal               *futexSignal
	id                   string
}

func openSQLitePass(path string, _ time.Duration) (library, error) {
	path += ".passed"
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=page_size(1024)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	l, ctx := &passLibrary{db: db, id: rand.Text()}, context.Background()
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS pass (name TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (name, id)) STRICT, WITHOUT ROWID")
	if err == nil {
		l.insert, err = db.PrepareContext(ctx, "INSERT INTO pass (name, id) VALUES (?, ?)")
	}
	if err == nil {
		l.look, err = db.PrepareContext(ctx, "SELECT 1 FROM pass WHERE name = ? AND id <> ? LIMIT 1")
	}
	if err == nil {
		l.remove, err = db.PrepareContext(ctx, "DELETE FROM pass WHERE name = ? AND id = ?")
	}
	if err == nil {
		l.signal, err = openFutexSignal(path + ".signal")
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return l, nil
}

func (l *passLibrary) mutex(name string) mutex { return passMutex{l, name} }

func (l *passLibrary) close() {
	l.db.Close()
	l.signal.close()
}

type passMutex struct {
	l    *passLibrary
	name string
}

// lock waits until no other process has a row.
func (m passMutex) lock(ctx context.Context) (held, error) {
	l := m.l
	if _, err := l.insert.ExecContext(ctx, m.name, l.id); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		seen, other := l.signal.wakeups(), 0
		err := l.look.QueryRowContext(context.Background(), m.name, l.id).Scan(&other) // a context that can end costs a goroutine
		if errors.Is(err, sql.ErrNoRows) {
			return m, nil
		} else if err != nil {
			return nil, err
		}
		l.signal.wait(seen)
	}
	return nil, errors.Join(context.Cause(ctx), m.Unlock())
}

// Unlock makes the other process hold.
func (m passMutex) Unlock() error {
	_, err := m.l.remove.ExecContext(context.Background(), m.name, m.l.id)
	m.l.signal.wake()
	return err
}
