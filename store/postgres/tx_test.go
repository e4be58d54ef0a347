package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/postgres/internal/advisory"
)

// connect returns a pool for tests.
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

// A client that makes the tables waits for another's turn, and delays nobody meanwhile.
func TestMakingTablesHoldsBackNobody(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t)
	pool := connect(t, s)
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.Background()) }()
	tables := tables{schema: DefaultSchema, prefix: DefaultPrefix}
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol, int64(tables.hash())); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		d, err := driver.Open(timely(t), "postgres://postgres@"+s.Addr+"/postgres?application_name=makes")
		if err == nil {
			d.Close()
		}
		opened <- err
	}()
	servertest.Until(t, "a client waits for its turn", func() bool {
		var n int
		scan(t, pool, &n, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'makes' AND query LIKE '%pg_try_advisory_xact_lock%'")
		return n == 1
	})
	exec(t, pool, "CREATE TABLE work (i int)")
	exec(t, pool, "CREATE INDEX CONCURRENTLY work_i ON work (i)")
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("the client was opened with the error %v", err)
	}
}

// A rollback to a savepoint that is older than a lock, or than a raise, undoes it, as the doc comments say: another
// transaction then has the lock, and a check finds the token not raised. Locks and raises from before the savepoint stay.
func TestRollbackToSavepoint(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	ctx := timely(t)
	table, err := guard.NewTable(guard.PostgreSQL, "guard_"+schema())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, table.Schema())
	before, after := rand.Text(), rand.Text()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if err := errors.Join(LockTx(ctx, tx, before), table.Raise(ctx, GuardTx(tx), before, 7)); err != nil {
		t.Fatal(err)
	}
	nested, err := tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(LockTx(ctx, nested, after), table.Raise(ctx, GuardTx(nested), after, 7), nested.Rollback(ctx))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{before: false, after: true} {
		var free bool
		scan(t, pool, &free, "SELECT pg_try_advisory_xact_lock($1)", advisory.Key(name))
		if free != want {
			t.Errorf("another transaction has the lock that is older than the savepoint, or not (%v): %v", name == before, free)
		}
	}
	if err := table.Check(ctx, GuardTx(tx), before, 7); err != nil {
		t.Errorf("check of what was raised before the savepoint: %v", err)
	}
	if err := table.Check(ctx, GuardTx(tx), after, 7); !errors.Is(err, guard.ErrNotRaised) {
		t.Errorf("check of what was undone: %v; want ErrNotRaised", err)
	}
}
