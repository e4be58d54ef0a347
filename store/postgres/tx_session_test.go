package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/internal/servertest"
)

// oldKey returns the key of a name in older versions, which have one for LockTx and another for sessions.
func oldKey(before, name string) int64 {
	sum := sha256.Sum256([]byte(before + name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// LockTx and a store with mode=session still exclude the older versions that each of them excluded before.
func TestOlderVersionsAreExcluded(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	const xact = "SELECT pg_advisory_xact_lock($1)"
	lockTx := func(name string) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { return LockTx(t.Context(), tx, name) }
	}
	older := func(before string) func(name string) func(pgx.Tx) error {
		return func(name string) func(pgx.Tx) error {
			return func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), xact, oldKey(before, name)); return err }
		}
	}
	for _, tt := range []struct {
		name          string
		first, second func(name string) func(pgx.Tx) error // nil: a session
	}{
		{"old LockTx, LockTx", older("stile "), lockTx},
		{"LockTx, old LockTx", lockTx, older("stile ")},
		{"old session, LockTx", older("stile\x00"), lockTx},
		{"LockTx, old session", lockTx, older("stile\x00")},
		{"old session, session", older("stile\x00"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := "excludes/" + tt.name
			d := opener("postgres://postgres@" + server.Addr + "/postgres?mode=session")(t)
			t.Cleanup(func() { d.Close() })
			// take locks the name from one side, and returns the function that frees it.
			take := func(lock func(name string) func(pgx.Tx) error) (free func(), backend uint32, taken chan error) {
				taken = make(chan error, 1)
				if lock == nil {
					c := claim(name, "session")
					p, err := d.Enter(timely(t), c)
					if c.Ticket = p.Ticket; err == nil && p.Holds {
						taken <- nil
					} else if err != nil {
						taken <- err
					} else {
						go func() { _, err := d.Await(timely(t), c); taken <- err }()
					}
					return func() { leave(t, d, c) }, 0, taken
				}
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				backend = tx.Conn().PgConn().PID()
				go func() { taken <- lock(name)(tx) }()
				return func() { _ = tx.Rollback(context.Background()) }, backend, taken
			}
			free, _, taken := take(tt.first)
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
			freeSecond, backend, second := take(tt.second)
			if backend != 0 {
				servertest.Until(t, "the second one waits or has the lock", func() bool {
					var n int
					scan(t, pool, &n, advisoryWaits, backend)
					return n == 1 || len(second) > 0
				})
			}
			if len(second) > 0 {
				t.Errorf("both have the lock (%v)", <-second)
				free()
				freeSecond()
				return
			}
			free()
			if err := <-second; err != nil {
				t.Errorf("when the first has left, the second is told %v", err)
			}
			freeSecond()
		})
	}
}
