package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

// guarded makes a new schema for guarded data, and opens it by database/sql. It also returns the URL.
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

func TestGuardColumns(t *testing.T) {
	t.Parallel()
	db, _ := guarded(t)
	guardtest.Columns(t, &guardtest.Database{DB: db, Dialect: guard.PostgreSQL})
}

// As behind a transaction pooler, without prepared statements.
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

// The guard of the Python client keeps the same marks.
func TestGuardInPython(t *testing.T) {
	t.Parallel()
	db, url := guarded(t)
	_, schema, _ := strings.Cut(url, "search_path=")
	host, port, _ := strings.Cut(server.Addr, ":")
	guardtest.Python(t, &guardtest.Database{DB: db, Dialect: guard.PostgreSQL}, "psycopg2", map[string]any{
		"host": host, "port": port, "user": "postgres", "dbname": "postgres", "options": "-c search_path=" + schema,
	})
}

func BenchmarkGuard(b *testing.B) {
	db, _ := guarded(b)
	guardtest.Cost(b, &guardtest.Database{DB: db, Dialect: guard.PostgreSQL})
}

// The SQL for shell scripts in docs/howto/guard.md works, and refuses a stale token.
func TestGuardOfAScript(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("../..", "docs", "howto", "guard.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(text), "```sql\n")
	script, _, ok := strings.Cut(script, "```\n")
	if !ok {
		t.Fatal("docs/howto/guard.md has no SQL")
	}
	db, _ := guarded(t, "default_query_exec_mode=simple_protocol")
	table, err := guard.NewTable(guard.PostgreSQL, "")
	if err != nil {
		t.Fatal(err)
	}
	const orders = "CREATE TABLE orders (id int, state text); INSERT INTO orders VALUES (42, 'paid')"
	if _, err := db.ExecContext(t.Context(), table.Schema()+"; "+orders); err != nil {
		t.Fatal(err)
	}
	run := func(token string) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = conn.ExecContext(t.Context(), strings.ReplaceAll(script, ":t", token))
		if err != nil {
			if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
		}
		return err
	}
	for _, tt := range []struct {
		token, before, after string
		works                bool
	}{
		{"7", "paid", "shipped", true}, {"7", "paid", "shipped", true}, {"6", "paid", "paid", false},
		{"9223372036854775807", "paid", "shipped", true}, {"7", "paid", "paid", false},
	} {
		if _, err := db.ExecContext(t.Context(), "UPDATE orders SET state = $1", tt.before); err != nil {
			t.Fatal(err)
		}
		if err := run(tt.token); (err == nil) != tt.works {
			t.Errorf("token %s: %v; want that it works: %v", tt.token, err, tt.works)
		}
		var state string
		if err := db.QueryRowContext(t.Context(), "SELECT state FROM orders").Scan(&state); err != nil || state != tt.after {
			t.Errorf("token %s: the order is %s, %v; want %s", tt.token, state, err, tt.after)
		}
	}
}
