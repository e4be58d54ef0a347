package postgres

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/internal/servertest"
)

// connect returns a pool of the tests' own.
func connect(t testing.TB, s *servertest.Server) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@"+s.Addr+"/postgres?pool_max_conns=20")
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

// Read, think and write, by many transactions at once: none is lost with the lock, some are without.
func TestLockTx(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	db, err := sql.Open("pgx", "postgres://postgres@"+server.Addr+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec(t, pool, "CREATE TABLE public.counter (name text, n int)")
	increment := func(name string, lock func(pgx.Tx) error) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if err := lock(tx); err != nil {
				return err
			}
			var n int
			const read = "SELECT n, pg_sleep(0.001) FROM public.counter WHERE name = $1"
			if err := tx.QueryRow(t.Context(), read, name).Scan(&n, nil); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "UPDATE public.counter SET n = $2 WHERE name = $1", name, n+1)
			return err
		})
	}
	incrementSQL := func(name string) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := LockSQLTx(t.Context(), tx, "orders/7"); err != nil {
			return err
		}
		const count = "UPDATE public.counter SET n = (SELECT n FROM public.counter WHERE name = $1) + 1 WHERE name = $1"
		if _, err := tx.Exec(count, name); err != nil {
			return err
		}
		return tx.Commit()
	}
	const workers, rounds = 8, 10
	count := func(name string, work func() error) (n int) {
		exec(t, pool, "INSERT INTO public.counter VALUES ($1, 0)", name)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range rounds {
					if err := work(); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		scan(t, pool, &n, "SELECT n FROM public.counter WHERE name = $1", name)
		return n
	}
	turn := 0
	var mu sync.Mutex
	locked := count("locked", func() error {
		mu.Lock()
		turn++
		bySQL := turn%4 == 0
		mu.Unlock()
		if bySQL {
			return incrementSQL("locked")
		}
		return increment("locked", func(tx pgx.Tx) error { return LockTx(t.Context(), tx, "orders/7") })
	})
	if locked != workers*rounds {
		t.Errorf("%d of %d increments are left under the lock", locked, workers*rounds)
	}
	free := count("free", func() error { return increment("free", func(pgx.Tx) error { return nil }) })
	if free == workers*rounds {
		t.Error("no increment is lost without the lock: the test proves nothing")
	}
}

func TestLockTxEndsWithItsTransaction(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	begin := func(level pgx.TxIsoLevel) pgx.Tx {
		t.Helper()
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	first, second := begin(pgx.ReadCommitted), begin(pgx.ReadCommitted)
	for range 2 {
		if err := LockTx(t.Context(), first, "é"); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan error, 1)
	go func() { got <- LockTx(t.Context(), second, "é") }()
	servertest.Until(t, "the second transaction waits", func() bool {
		var n int
		scan(t, pool, &n, advisoryWaits, second.Conn().PgConn().PID())
		return n == 1
	})
	var killed bool
	scan(t, pool, &killed, "SELECT pg_terminate_backend($1)", first.Conn().PgConn().PID())
	if err := <-got; err != nil {
		t.Errorf("after the connection with the lock was killed: %v", err)
	}
	if err := first.Commit(t.Context()); err == nil {
		t.Error("the transaction whose connection was killed commits")
	}
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		err := LockTx(t.Context(), begin(level), "é")
		if err == nil || !strings.Contains(err.Error(), "needs read committed") {
			t.Errorf("in a %s transaction: %v", level, err)
		}
	}
	if err := LockTx(t.Context(), second, ""); err == nil {
		t.Error("the empty name can be locked")
	}
}
