package postgres

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// server is the server of the tests that do not change it. Each has a schema of its own.
var server *servertest.Server

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(t servertest.TB) {
		server = servertest.Postgres(t)
		os.Setenv("DATABASE_URL", "postgres://postgres@"+server.Addr+"/postgres") // for the examples
	}))
}

// schema returns a schema that does not exist yet.
func schema() string { return "test_" + strings.ToLower(rand.Text()) }

// fresh returns the URL of a schema that does not exist yet.
func fresh(s *servertest.Server, params ...string) string {
	return "postgres://postgres@" + s.Addr + "/postgres?" + strings.Join(append(params, "schema="+schema()), "&")
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

// listens waits until a waiting claim would get its message.
func listens(t testing.TB, d *Driver, c *driver.Claim) {
	t.Helper()
	servertest.Until(t, "the driver listens", func() bool {
		if d.inboxes.Expect(d.channel, c.ID) {
			enter(t, d, c)
			return true
		}
		if _, err := d.Await(timely(t), c); err != nil {
			t.Fatalf("await: %v", err)
		}
		return false
	})
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

// asText sends several statements as one text.
const asText = pgx.QueryExecModeSimpleProtocol
