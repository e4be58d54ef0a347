package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// server is shared by the tests that leave it as it is. Each has a schema of its own.
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

// timely returns a context for a call that must not hang.
func timely(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
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

func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client of " + id, Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Minute,
	}
}

func enter(t testing.TB, d *Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if err != nil {
		t.Fatalf("enter: %v", err)
	}
	c.Ticket = p.Ticket
	return p
}

func leave(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	if err := d.Leave(timely(t), &driver.Departure{Claim: c}); err != nil {
		t.Fatalf("leave: %v", err)
	}
}

// listens has a claim that waits be ready to be told.
func listens(t testing.TB, d *Driver, c *driver.Claim) {
	t.Helper()
	servertest.Until(t, "the driver listens", func() bool {
		if d.listener.find(c.ID) != nil {
			return true
		}
		if _, err := d.Await(timely(t), c); err != nil {
			t.Fatalf("await: %v", err)
		}
		enter(t, d, c)
		return false
	})
}

// await waits until a claim holds, which it must be told.
func await(t testing.TB, d *Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Await(timely(t), c)
	if err != nil || !p.Holds {
		t.Fatalf("await = %+v, %v; want a place that holds", p, err)
	}
	return p
}

func renew(t testing.TB, d driver.Driver, c *driver.Claim) error {
	t.Helper()
	return d.Renew(timely(t), []*driver.Claim{c})[0].Err
}

// says checks the text of an error.
func says(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one that says %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has a line break: %q", err)
	}
}

// marks checks what an error says about the request and the store.
func marks(t testing.TB, err error, rejected, unreachable bool) {
	t.Helper()
	if driver.IsRejected(err) != rejected || driver.IsUnreachable(err) != unreachable {
		t.Errorf("%v: rejected %v, unreachable %v; want %v, %v", err, driver.IsRejected(err), driver.IsUnreachable(err), rejected, unreachable)
	}
}

// refuses checks that a store cannot be opened, and why.
func refuses(t testing.TB, url string, parts ...string) error {
	t.Helper()
	d, err := driver.Open(timely(t), url)
	if err == nil {
		d.Close()
		t.Errorf("%s can be opened", url)
		return errors.New("none")
	}
	says(t, err, parts...)
	return err
}

// asText sends several statements as one text.
const asText = pgx.QueryExecModeSimpleProtocol
