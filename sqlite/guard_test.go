package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

// data opens a new database file for what locks protect.
func data(t testing.TB) *sql.DB {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "data.db") + "?_pragma=busy_timeout(500)&_pragma=journal_mode(WAL)&_txlock=deferred"
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

func BenchmarkGuard(b *testing.B) {
	guardtest.Cost(b, &guardtest.Database{DB: data(b), Dialect: guard.SQLite})
}
