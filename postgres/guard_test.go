package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

// guarded makes a new schema for what locks protect, and opens it by database/sql. It returns the URL too.
func guarded(t testing.TB, params ...string) (*sql.DB, string) {
	t.Helper()
	schema := "data_" + strings.ToLower(rand.Text())
	url := "postgres://postgres@" + server.Addr + "/postgres?" + strings.Join(append(params, "search_path="+schema), "&")
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec("CREATE SCHEMA " + schema); err != nil {
		t.Fatal(err)
	}
	return db, url
}

func TestGuard(t *testing.T) {
	t.Parallel()
	db, _ := guarded(t)
	guardtest.SQL(t, &guardtest.Database{DB: db, Dialect: guard.PostgreSQL})
}

// As behind a transaction pooler, where no statement is prepared.
func TestGuardBySimpleProtocol(t *testing.T) {
	t.Parallel()
	db, _ := guarded(t, "default_query_exec_mode=simple_protocol")
	guardtest.SQL(t, &guardtest.Database{DB: db, Dialect: guard.PostgreSQL})
}

func TestGuardByPgx(t *testing.T) {
	t.Parallel()
	db, url := guarded(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	guardtest.SQL(t, &guardtest.Database{DB: db, Dialect: guard.PostgreSQL,
		Begin: func(ctx context.Context) (guard.Tx, func(bool) error, error) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return nil, nil, err
			}
			return GuardTx(tx), func(commit bool) error {
				if commit {
					return tx.Commit(context.Background())
				}
				return tx.Rollback(context.Background())
			}, nil
		}})
}
