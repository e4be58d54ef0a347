package mysql

import (
	"crypto/rand"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// server is the server of the tests that do not change it. Each has a database of its own.
var server *servertest.Server

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(t servertest.TB) { server = servertest.MySQL(t) }))
}

// raw returns a pool of the superuser on a database; empty means none. It can send several statements at once.
func raw(t testing.TB, s *servertest.Server, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/"+database+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// maria reports whether the server is MariaDB, the default in tests. A test that asks treats MySQL differently.
func maria(t testing.TB, db *sql.DB) bool {
	t.Helper()
	var version string
	if err := db.QueryRowContext(timely(t), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return facts{"version": version}.maria()
}

func mustExec(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(timely(t), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// database makes a database for one test.
func database(t testing.TB, s *servertest.Server) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	mustExec(t, raw(t, s, ""), "CREATE DATABASE "+name)
	return name
}

// fresh returns the URL of a database for one test.
func fresh(t testing.TB, s *servertest.Server, params ...string) string {
	t.Helper()
	return "mysql://root@" + s.Addr + "/" + database(t, s) + "?" + strings.Join(params, "&")
}

func open(t testing.TB, url string) *Driver {
	t.Helper()
	d, err := driver.Open(timely(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*Driver)
}

// await waits until a claim holds by a notification.
func await(t testing.TB, d *Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Await(timely(t), c)
	if err != nil || !p.Holds {
		t.Fatalf("await = %+v, %v; want a place that holds", p, err)
	}
	return p
}
