//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

func openMySQL(addr string) (*sql.DB, error) {
	db, err := sql.Open("mysql", "root@tcp("+addr+")/bench?interpolateParams=true")
	if err == nil {
		db.SetMaxOpenConns(contentionSize)
		db.SetMaxIdleConns(contentionSize)
	}
	return db, err
}

func openGetLock(addr string, _ time.Duration) (library, error) {
	db, err := openMySQL(addr)
	return getLockLibrary{db}, err
}

type getLockLibrary struct{ db *sql.DB }

func (l getLockLibrary) mutex(name string) mutex { return getLockMutex{l.db, name} }
func (l getLockLibrary) close()                  { l.db.Close() }

type getLockMutex struct {
	db   *sql.DB
	name string
}

func (m getLockMutex) lock(ctx context.Context) (held, error) {
	c, err := m.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	if err := c.QueryRowContext(ctx, "SELECT GET_LOCK(?, 3600)", m.name).Scan(&got); err != nil || got.Int64 != 1 {
		c.Close()
		return nil, errors.Join(err, ctx.Err(), errors.New("GET_LOCK: not had"))
	}
	return getLockHeld{c, m.name}, nil
}

type getLockHeld struct {
	c    *sql.Conn
	name string
}

func (h getLockHeld) Unlock() error {
	_, err := h.c.ExecContext(context.Background(), "DO RELEASE_LOCK(?)", h.name)
	return errors.Join(err, h.c.Close())
}

func openMySQLBare(addr string, _ time.Duration) (library, error) {
	db, err := openMySQL(addr)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(context.Background(), "CREATE TABLE IF NOT EXISTS bare (name varchar(255) PRIMARY KEY)"); err != nil {
		db.Close()
		return nil, err
	}
	return mysqlBareLibrary{db}, nil
}

type mysqlBareLibrary struct{ db *sql.DB }

func (l mysqlBareLibrary) mutex(name string) mutex { return mysqlBareMutex{l.db, name} }
func (l mysqlBareLibrary) close()                  { l.db.Close() }

type mysqlBareMutex struct {
	db   *sql.DB
	name string
}

func (m mysqlBareMutex) lock(ctx context.Context) (held, error) {
	_, err := m.db.ExecContext(ctx, "INSERT INTO bare (name) VALUES (?)", m.name)
	return m, err
}

func (m mysqlBareMutex) Unlock() error {
	_, err := m.db.ExecContext(context.Background(), "DELETE FROM bare WHERE name = ?", m.name)
	return err
}
