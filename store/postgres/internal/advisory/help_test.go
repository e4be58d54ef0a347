package advisory

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/session"
)

// home is the server of the tests that do not change it.
var home *servertest.Server

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(t servertest.TB) { home = servertest.Postgres(t) }))
}

// The driver's calls, as methods for tests.
var (
	timely = drive.Timely
	claim  = drive.Claim
	leave  = drive.Leave
	says   = drive.Says
	marks  = drive.Marks
	renew  = drive.Renew
)

// at returns the URL of a server's advisory locks.
func at(s *servertest.Server, params ...string) string {
	return "postgres://postgres@" + s.Addr + "/postgres?" + strings.Join(params, "&")
}

func openURL(ctx context.Context, url string) (driver.Driver, error) {
	a, err := driver.ParseAddress(url)
	if err != nil {
		return nil, err
	}
	return Open(ctx, a)
}

// client opens a client of the advisory locks at a URL.
func client(t testing.TB, url string) *session.Session {
	t.Helper()
	d, err := openURL(timely(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*session.Session)
}

// oneKey opens a client with one key for all names.
func oneKey(t testing.TB, key int64) driver.Driver {
	t.Helper()
	a, err := driver.ParseAddress(at(home))
	if err != nil {
		t.Fatal(err)
	}
	d, err := open(timely(t), a, func(string) int64 { return key })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// enter enters a claim, and checks whether it holds.
func enter(t testing.TB, d driver.Driver, c *driver.Claim, holds bool) driver.Place {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if err != nil || p.Holds != holds {
		t.Fatalf("enter = %+v, %v; want holds %v", p, err, holds)
	}
	c.Ticket = p.Ticket
	return p
}

// awaits waits for a claim in the background.
func awaits(t *testing.T, d driver.Driver, c *driver.Claim) (told chan driver.Place) {
	t.Helper()
	enter(t, d, c, false)
	told = make(chan driver.Place, 1)
	ctx := timely(t)
	go func() {
		defer close(told)
		if p, err := d.Await(ctx, c); err == nil {
			told <- p
		}
	}()
	return told
}

// count asks the shared server for a number.
func count(t testing.TB, statement string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(timely(t), at(home))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(timely(t), statement, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// inServer counts the connections of an application that wait for an advisory lock in the server.
func inServer(t *testing.T, application string) int {
	t.Helper()
	return count(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'advisory'", application)
}

// locks counts the advisory locks of an application's connections, without their tags.
func locks(t *testing.T, application string) (n int) {
	t.Helper()
	const had = "SELECT count(*) - count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid) " +
		"WHERE application_name = $1 AND locktype = 'advisory' AND granted"
	return count(t, had, application)
}

// kill ends the connections of an application, and returns how many there were. The server frees their locks after it has
// informed their clients, so kill waits until the processes are gone.
func kill(t testing.TB, application string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(timely(t), at(home))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const ended = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE application_name = $1"
	err = conn.QueryRow(timely(t), ended, application).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
