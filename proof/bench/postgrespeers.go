//go:build unix

package main

import (
	"context"
	"database/sql"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq" // the driver of pglock
)

func openPgLock(addr string, ttl time.Duration) (library, error) {
	db, err := sql.Open("postgres", pgURL(addr)+"?sslmode=disable")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(contentionSize)
	db.SetMaxIdleConns(contentionSize)
	c, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(ttl), pglock.WithHeartbeatFrequency(ttl/3))
	if err == nil {
		err = c.TryCreateTable()
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return pgLockLibrary{db, c}, nil
}

type pgLockLibrary struct {
	db *sql.DB
	c  *pglock.Client
}

func (l pgLockLibrary) mutex(name string) mutex { return pgLockMutex{l.c, name} }
func (l pgLockLibrary) close()                  { l.db.Close() }

type pgLockMutex struct {
	c    *pglock.Client
	name string
}

func (m pgLockMutex) lock(ctx context.Context) (held, error) {
	l, err := m.c.AcquireContext(ctx, m.name)
	return pgLockHeld{l}, err
}

type pgLockHeld struct{ l *pglock.Lock }

func (h pgLockHeld) Unlock() error { return h.l.Close() }

// A pgPool runs statements that are a lock, or resemble one.
type pgPool struct {
	pool         *pgxpool.Pool
	take, free   string
	onConnection bool // both statements on one connection
}

func openPgPool(addr string, l pgPool) (library, error) {
	config, err := pgxpool.ParseConfig(pgURL(addr))
	if err != nil {
		return nil, err
	}
	config.MaxConns = contentionSize
	l.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	return l, err
}

func openAdvisory(addr string, _ time.Duration) (library, error) {
	return openPgPool(addr, pgPool{
		take: "SELECT pg_advisory_lock(hashtextextended($1, 0))", free: "SELECT pg_advisory_unlock(hashtextextended($1, 0))", onConnection: true,
	})
}

func openBare(addr string, _ time.Duration) (library, error) {
	l, err := openPgPool(addr, pgPool{take: "INSERT INTO bare (name) VALUES ($1)", free: "DELETE FROM bare WHERE name = $1"})
	if err != nil {
		return nil, err
	}
	if _, err := l.(pgPool).pool.Exec(context.Background(), "CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY)"); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l pgPool) mutex(name string) mutex { return pgMutex{l, name} }
func (l pgPool) close()                  { l.pool.Close() }

type pgMutex struct {
	l    pgPool
	name string
}

func (m pgMutex) lock(ctx context.Context) (held, error) {
	if !m.l.onConnection {
		_, err := m.l.pool.Exec(ctx, m.l.take, m.name)
		return pgHeld{m, nil}, err
	}
	c, err := m.l.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, m.l.take, m.name); err != nil {
		c.Release()
		return nil, err
	}
	return pgHeld{m, c}, nil
}

type pgHeld struct {
	m pgMutex
	c *pgxpool.Conn
}

func (h pgHeld) Unlock() (err error) {
	if h.c == nil {
		_, err = h.m.l.pool.Exec(context.Background(), h.m.l.free, h.m.name)
		return err
	}
	defer h.c.Release()
	_, err = h.c.Exec(context.Background(), h.m.l.free, h.m.name)
	return err
}
