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
)

// server is shared by the tests that leave it as it is.
var server *servertest.Server

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(t servertest.TB) { server = servertest.Postgres(t) }))
}

// The calls of a driver, as tests make them.
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

// open opens a client of the advisory locks at a URL.
func open(t testing.TB, url string) *session {
	t.Helper()
	d, err := openURL(timely(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*session)
}

// enter enters a claim that must hold, or must not.
func enter(t testing.TB, d driver.Driver, c *driver.Claim, holds bool) driver.Place {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if err != nil || p.Holds != holds {
		t.Fatalf("enter = %+v, %v; want holds %v", p, err, holds)
	}
	c.Ticket = p.Ticket
	return p
}

// kill ends the connections of an application, and returns how many there were. The server frees their locks after it has
// told their clients, so this waits until their processes are gone.
func kill(t testing.TB, application string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(timely(t), at(server))
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
