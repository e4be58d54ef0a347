package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

// data opens a new database file for guarded data. Of many concurrent writers, each waits less than the busy timeout.
func data(t testing.TB) *sql.DB {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "data.db") + "?_pragma=busy_timeout(2000)&_pragma=journal_mode(WAL)&_txlock=deferred"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestGuard(t *testing.T) {
	t.Parallel()
	guardtest.SQL(t, &guardtest.Database{DB: data(t), Dialect: guard.SQLite})
}

func TestGuardColumns(t *testing.T) {
	t.Parallel()
	guardtest.Columns(t, &guardtest.Database{DB: data(t), Dialect: guard.SQLite})
}

// If a higher token comes while a handler works, the check in its own transaction refuses the handler's write.
func TestGuardedHandler(t *testing.T) {
	t.Parallel()
	db := data(t)
	marks, err := guard.NewTable(guard.SQLite, "")
	if err != nil {
		t.Fatal(err)
	}
	check := func(ctx context.Context) error {
		resource, token := guard.Incoming(ctx)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		return marks.Check(ctx, guard.SQL(tx), resource, token)
	}
	var before, after error
	h := guard.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before = check(r.Context())
		if err := marks.Marks(db).Raise(r.Context(), "/orders/42", 8); err != nil {
			t.Error(err)
		}
		after = check(r.Context())
	}), marks.Marks(db), nil)
	r := httptest.NewRequest(http.MethodPut, "/orders/42", nil)
	r.Header.Set(guard.Header, "7")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if before != nil || !errors.Is(after, guard.ErrStale) {
		t.Errorf("check = %v before the higher token came, %v after; want nil and ErrStale", before, after)
	}
}

// The guard of the Python client keeps the same marks.
func TestGuardInPython(t *testing.T) {
	t.Parallel()
	db, file := data(t), ""
	if err := db.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		t.Fatal(err)
	}
	guardtest.Python(t, &guardtest.Database{DB: db, Dialect: guard.SQLite}, "sqlite3", map[string]any{"database": file, "timeout": 10})
}

func BenchmarkGuard(b *testing.B) {
	guardtest.Cost(b, &guardtest.Database{DB: data(b), Dialect: guard.SQLite})
}
