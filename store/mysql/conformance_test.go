package mysql

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	at := func(addrs ...string) string { return "mysql://root@" + addrs[0] + "/" + name }
	drive.Lacks(t, opener(at(server.Addr)))
	drivertest.Run(t, drivertest.Store{
		Open:    opener(at(server.Addr)),
		Detour:  drive.Detour(at, server.Addr),
		Fresh:   fresher(t),
		Stall:   func(t testing.TB) *drivertest.Stalled { return stalled(t, name) },
		Lease:   600 * time.Millisecond,
		Lacking: lacking(),

		Cleaning:     cleaning,
		Work:         counted,
		Transactions: transactions,

		Edge: drive.Edges(func(t testing.TB, _ string) (string, func(int64)) {
			name := database(t, server)
			return "mysql://root@" + server.Addr + "/" + name, func(ticket int64) {
				mustExec(t, raw(t, server, name), fmt.Sprint("UPDATE stile_meta SET floor = ", ticket))
			}
		}),

		Mishaps: drive.TableMishaps(func(t testing.TB) (string, func(string), []string) {
			name := database(t, server)
			db := raw(t, server, name)
			return "mysql://root@" + server.Addr + "/" + name, func(statement string) { mustExec(t, db, statement) },
				[]string{"stile_name", "stile_claim"}
		}),
	})
}

// cleaning makes a store whose rows the suite can make older.
func cleaning(t testing.TB) *drivertest.Cleaning {
	t.Helper()
	name := database(t, server)
	db, d := raw(t, server, name), open(t, "mysql://root@"+server.Addr+"/"+name)
	tidied(t, d)
	return &drivertest.Cleaning{
		Driver: d,
		Later:  func(by time.Duration) { ago(t, db, by) },
		Clean: func() error {
			_, err := d.store.clean(timely(t), time.Hour, 3)
			_, txErr := d.store.cleanTx(timely(t), time.Hour, 3)
			return errors.Join(err, txErr)
		},
		Names: func() int { return rowsIn(t, db, "stile_name") },
		LockTx: func(name string) error {
			tx := begin(t, db, sql.LevelReadCommitted)
			return errors.Join(LockTx(timely(t), tx, name), tx.Commit())
		},
		Locked: func() int { return rowsIn(t, db, "stile_tx WHERE name LIKE 'locked/%'") },
	}
}

// fresher returns a function that makes stores on the server, each under a prefix of its own.
func fresher(t testing.TB) func(testing.TB) func() driver.Driver {
	name := database(t, server)
	return func(t testing.TB) func() driver.Driver {
		open := opener("mysql://root@" + server.Addr + "/" + name + "?prefix=p" + strings.ToLower(rand.Text()) + "_")
		return func() driver.Driver { return open(t) }
	}
}

// stalled opens a client that can stand still. It uses the caller's pool, so that the server does not end a stalled
// transaction while the test runs.
func stalled(t testing.TB, name string) *drivertest.Stalled {
	t.Helper()
	s := servertest.NewStall(t, server.Addr)
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/"+name+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d, err := New(timely(t), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &drivertest.Stalled{Driver: d, After: s.After, Still: s.Still, Pass: s.Pass}
}

// The caller's pool sends its statements one by one, on connections with the server's settings.
func TestContractOnePerTrip(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+database(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	under := func(t testing.TB, prefix string) driver.Driver {
		d, err := New(timely(t), db, &Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	drivertest.Run(t, drivertest.Store{
		Lease: 600 * time.Millisecond,
		Open:  func(t testing.TB) driver.Driver { return under(t, "") },
		Fresh: func(t testing.TB) func() driver.Driver {
			prefix := "p" + rand.Text()
			return func() driver.Driver { return under(t, prefix) }
		},
	})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener(fresh(t, server))}, 1, 1500)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	url := func(addrs ...string) string { return "mysql://root@" + addrs[0] + "/" + name }
	drivertest.Concurrent(t, drivertest.Store{Open: opener(url(server.Addr)), Detour: drive.Detour(url, server.Addr)}, 1, 6)
}
