package link

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

var server *servertest.Server

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(t servertest.TB) { server = servertest.Postgres(t) }))
}

func open(t *testing.T, url string) *Link {
	t.Helper()
	a, err := driver.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func ask(t *testing.T, l *Link, statement string, into ...any) error {
	return l.Query(drive.Timely(t), statement, nil, func(rows pgx.Rows) error { return rows.Scan(into...) })
}

// The server returns each fault of the table: by its real cause if a statement can cause it, otherwise by an exception with
// that code.
func TestFaults(t *testing.T) {
	t.Parallel()
	provoke := map[string]string{
		"25006": "DO $$ BEGIN PERFORM set_config('transaction_read_only', 'on', true); CREATE TABLE nowhere (); END $$",
		"26000": "EXECUTE nothing",
		"3F000": "CREATE TABLE nowhere.nothing ()",
		"42P01": "SELECT FROM nothing",
		"42883": "SELECT nothing()",
		"57014": "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(10)",
		"57P01": "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)",
	}
	l := open(t, "postgres://postgres@"+server.Addr+"/postgres?pool_max_conns=1")
	backend := func() (pid uint32) {
		if err := ask(t, l, "SELECT pg_backend_pid()", &pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	for code, want := range faults {
		if len(code) == 2 {
			code += "999"
		}
		statement := provoke[code]
		if statement == "" {
			statement = "DO $$ BEGIN RAISE EXCEPTION 'made to' USING ERRCODE = '" + code + "'; END $$"
		}
		before := backend()
		err := ask(t, l, statement)
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE "+code) {
			t.Errorf("%s: the error is %v", code, err)
			continue
		}
		if got := driver.OutcomeOf(err); got != want.outcome {
			t.Errorf("%v is %v; want %v", err, got, want.outcome)
		}
		if got := driver.IsUnreachable(err); got == want.lasts {
			t.Errorf("%v is for now: %v; want %v", err, got, !want.lasts)
		}
		if dropped := backend() != before; dropped != want.drop {
			t.Errorf("%v: the connection is dropped: %v; want %v", err, dropped, want.drop)
		}
	}
}

// Before there is a connection, no request can have been applied.
func TestFaultsOfConnecting(t *testing.T) {
	t.Parallel()
	admin := open(t, "postgres://postgres@"+server.Addr+"/postgres")
	for name, test := range map[string]struct{ role, want string }{
		"crowded": {"LOGIN CONNECTION LIMIT 0", "53300"},
		"shut":    {"NOLOGIN", "28000"},
	} {
		user := name + "_" + strings.ToLower(rand.Text())
		if err := ask(t, admin, "CREATE ROLE "+user+" PASSWORD 'pw' "+test.role); err != nil {
			t.Fatal(err)
		}
		err := ask(t, open(t, "postgres://"+user+":pw@"+server.Addr+"/postgres"), "SELECT 1")
		drive.Says(t, err, test.want)
		drive.Marks(t, err, true, !faults[test.want].lasts)
	}
}

// The error names a host that cannot be looked up once.
func TestLookupFailure(t *testing.T) {
	t.Parallel()
	lookup := &net.DNSError{Err: "no such host", Name: "db.invalid", IsNotFound: true}
	l := open(t, "postgres://db.invalid/db")
	err := l.Cause(fmt.Errorf("hostname resolving error: %w", errors.Join(lookup, lookup)))
	if got, want := err.Error(), "lookup db.invalid: no such host"; got != want {
		t.Errorf("cause = %q; want %q", got, want)
	}
}

// A server that ends the connection with its error may have been past the commit, whatever the error says. The SQLSTATE
// belongs to the failed system call: the disk of the log is full, or has become read-only.
func TestFatalIsUnknown(t *testing.T) {
	t.Parallel()
	l := open(t, "postgres://db.invalid/db")
	for _, code := range []string{"53100", "53000", "53200", "42501", "57014", "40001"} {
		for _, severity := range []string{"PANIC", "FATAL"} {
			r := &pgconn.PgError{
				Code: code, Severity: severity, SeverityUnlocalized: severity,
				Message: `could not write to file "pg_wal/xlogtemp.1"`,
			}
			err := l.Explain(t.Context(), r)
			drive.Marks(t, err, false, true)
			if !Drops(r) {
				t.Errorf("%s %s: the connection is used again", severity, code)
			}
		}
	}
}
