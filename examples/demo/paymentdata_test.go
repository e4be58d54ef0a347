//go:build unix

package main

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/examples/demo/internal/payment"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// tablesLeft counts the tables of demos in a database.
func tablesLeft(t *testing.T, url string) (n int) {
	t.Helper()
	l, err := payment.OpenLedger(url)
	if err != nil {
		t.Fatal(err)
	}
	defer l.DB.Close()
	const count = `SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'stile\_demo\_%'`
	if err := l.DB.QueryRowContext(context.WithoutCancel(t.Context()), count).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func postgresData(t *testing.T) string {
	t.Helper()
	return "postgres://postgres@" + servertest.Postgres(t).Addr + "/postgres"
}

func mysqlData(t *testing.T) string {
	t.Helper()
	addr := servertest.MySQL(t).Addr
	l, err := payment.OpenLedger("mysql://root@" + addr + "/mysql")
	if err != nil {
		t.Fatal(err)
	}
	defer l.DB.Close()
	if _, err := l.DB.ExecContext(t.Context(), "CREATE DATABASE shop"); err != nil {
		t.Fatal(err)
	}
	return "mysql://root@" + addr + "/shop"
}

// With the lock in the transaction that charges, the same faults neither charge an order twice nor lose one, and nothing of
// it depends on a lease: who is stopped keeps the others waiting, and of who is killed nothing is left.
func TestPaymentInTransaction(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{"postgres": postgresData, "mysql": mysqlData} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, data := newUser(t), start(t)
			var v payment.PaymentView
			out := u.demo("payment", "--quick", "--json", "--orders", "7", "--processes", "3", "--data", data, "--svg", u.home+"/payment.svg")
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Fatal(err)
			}
			demotest.WantPicture(t, u.home+"/payment.svg", "lock in transaction: process 1", "stopped", "killed", "charged again", "refused")
			if len(v.Columns) != 4 || v.StoppedAt != 4 || v.KilledAt != 5 {
				t.Fatalf("got %+v", v)
			}
			tx := v.Columns[3]
			if tx.Column != "lock in transaction" || tx.Once != 7 || len(tx.Twice)+len(tx.Open)+len(tx.Refused) > 0 || tx.Taken != tx.Price ||
				tx.Callbacks != 14 || tx.Killed != 1 || tx.Stopped < v.Lease {
				t.Errorf("%+v; want each of 7 orders charged once, one process killed, and one stopped past the lease", tx)
			}
			if guarded := v.Columns[2]; guarded.Once != 7 || guarded.Killed != 1 || len(guarded.Refused) != 1 ||
				!strings.Contains(guarded.Refused[0], `_orders/4": token `) {
				t.Errorf("%+v; want each of 7 orders charged once, and one late write of order 4 refused", guarded)
			}
			if n := tablesLeft(t, data); n > 0 {
				t.Errorf("%d tables are left", n)
			}
		})
	}
}

// Where nobody says otherwise, the locks are beside the orders. An interrupted demo takes its tables away.
func TestPaymentDataInterrupted(t *testing.T) {
	t.Parallel()
	data := postgresData(t)
	p, pids := newUser(t).at(data).stopping("payment", "--orders", "5", "--processes", "3", "--data", data)
	if tablesLeft(t, data) == 0 {
		t.Error("the orders are not in the database")
	}
	p.wantEnded(syscall.SIGTERM, pids)
	if n := tablesLeft(t, data); n > 0 {
		t.Errorf("%d tables are left", n)
	}
}

// A database that vanishes in the middle: what the processes reported is known, and what else was charged is not.
func TestPaymentDataVanishes(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	data := "postgres://postgres@" + server.Addr + "/postgres"
	u := newUser(t).at("redis://" + servertest.Redis(t).Addr)
	p, pids := u.stopping("payment", "--orders", "5", "--processes", "3", "--data", data)
	servertest.KillPostgres(server)
	p.wantHalf(pids, "the orders in postgres://127.0.0.1:", "; known: of 5 orders ", " reported; unknown: what else was charged")
}

// What the server will refuse again is 64, and says who is at fault.
func TestPaymentDataRefused(t *testing.T) {
	t.Parallel()
	data := mysqlData(t)
	root, err := payment.OpenLedger(data)
	if err != nil {
		t.Fatal(err)
	}
	defer root.DB.Close()
	for _, text := range []string{"CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'secret'", "GRANT SELECT ON shop.* TO poor@'127.0.0.1'"} {
		if _, err := root.DB.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	at := strings.TrimPrefix(data, "mysql://root@")
	for _, tt := range []struct {
		url  string
		code int
		want string
	}{
		{"mysql://poor:secret@" + at, exit.BadUsage, " command denied to user 'poor'"},
		{"mysql://poor:wrong@" + at, exit.BadUsage, "Access denied for user 'poor'"},
		{strings.TrimSuffix(data, "shop") + "none", exit.BadUsage, "Unknown database 'none'"},
		{"postgres://nobody@127.0.0.1:1/shop", exit.Store, "connection refused"},
	} {
		r := newUser(t).at("sqlite://"+t.TempDir()+"/locks.db").run("payment", "--quick", "--data", tt.url)
		if r.code != tt.code || !strings.Contains(r.err, "demo: the orders in ") || !strings.Contains(r.err, tt.want) || strings.Contains(r.err, "secret") {
			t.Errorf("%s: status %d, %s; want %d and %q", tt.url, r.code, r.err, tt.code, tt.want)
		}
	}
}
