//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A noticeLibrary is the bare limit of passing a name from one process to another by rows. A waiter has a row of its own
// and listens. A release deletes a row and notifies, in one statement. There is no lease, no order, and no lost message is
// made up for.
type noticeLibrary struct {
	pool   *pgxpool.Pool
	listen *pgx.Conn
	id     string
}

const noticeChannel = "bare_notice"

func openNotice(addr string, _ time.Duration) (library, error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgURL(addr))
	if err != nil {
		return nil, err
	}
	l := noticeLibrary{pool: pool, id: rand.Text()}
	_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS bare_notice (name text, id text, PRIMARY KEY (name, id))")
	if err == nil {
		l.listen, err = pgx.Connect(ctx, pgURL(addr))
	}
	if err == nil {
		if _, err = l.listen.Exec(ctx, "LISTEN "+noticeChannel); err == nil {
			return l, nil
		}
		l.listen.Close(ctx)
	}
	pool.Close()
	return nil, err
}

func (l noticeLibrary) mutex(name string) mutex { return noticeMutex{l, name} }

func (l noticeLibrary) close() {
	l.listen.Close(context.Background())
	l.pool.Close()
}

type noticeMutex struct {
	l    noticeLibrary
	name string
}

// lock waits for another process's notification if that process has a row.
func (m noticeMutex) lock(ctx context.Context) (held, error) {
	var others int
	err := m.l.pool.QueryRow(ctx, "INSERT INTO bare_notice (name, id) VALUES ($1, $2) "+
		"RETURNING (SELECT count(*) FROM bare_notice WHERE name = $1)", m.name, m.l.id).Scan(&others)
	for err == nil && others > 0 {
		var n *pgconn.Notification
		if n, err = m.l.listen.WaitForNotification(ctx); err == nil && n.Payload != m.l.id {
			break
		}
	}
	return m, err
}

// Unlock makes the other process hold.
func (m noticeMutex) Unlock() error {
	_, err := m.l.pool.Exec(context.Background(), "WITH gone AS (DELETE FROM bare_notice WHERE name = $1 AND id = $2 RETURNING id) "+
		"SELECT pg_notify('"+noticeChannel+"', id) FROM gone", m.name, m.l.id)
	return err
}
