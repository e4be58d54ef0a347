package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/internal/servertest"
)

// connect returns a pool of the tests' own.
func connect(t testing.TB, s *servertest.Server) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://postgres@" + s.Addr + "/postgres?pool_max_conns=20")
	if err != nil {
		t.Fatal(err)
	}
	return connectTo(t, config)
}

func connectTo(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func exec(t testing.TB, pool *pgxpool.Pool, text string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func scan(t *testing.T, pool *pgxpool.Pool, into any, text string, args ...any) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), text, args...).Scan(into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// advisoryWaits counts the advisory locks that a backend waits for.
const advisoryWaits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1"

func TestLockTxErrors(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	for level, says := range map[pgx.TxIsoLevel]string{
		pgx.ReadCommitted: "empty", pgx.RepeatableRead: "needs read committed", pgx.Serializable: "needs read committed",
	} {
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		name := "é"
		if level == pgx.ReadCommitted {
			name = ""
		}
		if err := LockTx(t.Context(), tx, name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the lock of %q, %s = %v; want one that says %q", name, level, err, says)
		}
	}
}
