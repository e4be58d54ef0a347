package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

func lockFile(t testing.TB) string { return filepath.Join(t.TempDir(), "locks.db") }

// open opens a lock file, and closes it when the test ends.
func open(t testing.TB, path string) driver.Driver {
	t.Helper()
	d, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// raw opens a lock file as another program does.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func claim(name string, lease time.Duration) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: rand.Text(), Client: "test", Weight: driver.All, Capacity: driver.All, TTL: lease, Wait: lease,
	}
}

func enter(t testing.TB, d driver.Driver, c *driver.Claim, holds bool) {
	t.Helper()
	p, err := d.Enter(t.Context(), c)
	if err != nil || p.Holds != holds {
		t.Fatalf("enter = %+v, %v; want holds %v", p, err, holds)
	}
	c.Ticket = p.Ticket
}

func leave(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
		t.Fatalf("leave: %v", err)
	}
}

// turn enters and waits as a client does until the claim holds.
func turn(ctx context.Context, d driver.Driver, c *driver.Claim) error {
	for {
		p, err := d.Enter(ctx, c)
		if err != nil || p.Holds {
			return err
		}
		c.Ticket = p.Ticket
		again := c.Wait / 3
		if p.Retry > 0 {
			again = min(again, p.Retry+time.Millisecond)
		}
		waiting, cancel := context.WithTimeout(ctx, again)
		p, err = d.Await(waiting, c)
		cancel()
		if err == nil && p.Holds {
			return nil
		}
		if err != nil && waiting.Err() == nil {
			return err
		}
	}
}

// says fails unless an error contains all of these parts.
func says(t testing.TB, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s = nil; want an error with %q", what, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s = %q; want %q in it", what, err, part)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("%s = %q; want one line", what, err)
	}
}

// Two drivers of one process share its locks on the file; closing one must not take them from the other.
func TestTwoDriversOfOneProcess(t *testing.T) {
	path := lockFile(t)
	a, b := open(t, path), open(t, path)
	held := claim("x", time.Minute)
	enter(t, a, held, true)
	enter(t, b, claim("x", time.Minute), false)
	for range 2 {
		if out := run(t, "look", path); out != "held" {
			t.Errorf("SQLite's lock on the file is %s to another process; want held", out)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A process that takes itself for the only one removes the log at its end, to which this process goes on writing.
	if out := run(t, "try", path); out != "held" {
		t.Fatalf("another process found the lock %s; want held", out)
	}
	second := claim("y", time.Minute)
	enter(t, a, second, true)
	for range 2 {
		if out := run(t, "tryY", path); out != "held" {
			t.Fatalf("another process found the second lock %s; want held", out)
		}
	}
	leave(t, a, second)
	if out := run(t, "tryY", path); out != "free" {
		t.Fatalf("another process found the second lock %s after it was left; want free", out)
	}
	if a := a.Renew(t.Context(), []*driver.Claim{held}); a[0].Err != nil {
		t.Errorf("renewal = %v; want nil", a[0].Err)
	}
}

func TestClaimsOfAnEarlierBootAreVoid(t *testing.T) {
	for name, change := range map[string]string{
		"by the id":    "UPDATE stile_meta SET boot = 'an earlier boot'",
		"by the clock": "UPDATE stile_meta SET boot = 'unknown', seen = seen + 60000000",
	} {
		t.Run(name, func(t *testing.T) { testEarlierBoot(t, change) })
	}
}

func testEarlierBoot(t *testing.T, change string) {
	path := lockFile(t)
	d := open(t, path)
	held := claim("x", time.Hour)
	enter(t, d, held, true)
	mustExec(t, raw(t, path), change)
	list, err := d.(driver.Lister).List(t.Context(), &driver.Query{})
	if err != nil || len(list) != 0 {
		t.Errorf("list = %+v, %v; want nothing of an earlier boot", list, err)
	}
	next := claim("x", time.Hour)
	enter(t, d, next, true)
	if next.Ticket <= held.Ticket {
		t.Errorf("the ticket is %d; want above %d, of the earlier boot", next.Ticket, held.Ticket)
	}
	if got := d.Renew(t.Context(), []*driver.Claim{held}); !errors.Is(got[0].Err, driver.ErrGone) {
		t.Errorf("renewal of a claim of the earlier boot = %v; want %v", got[0].Err, driver.ErrGone)
	}
	enter(t, d, claim("x", time.Hour), false)
}

// An id that a mount hides proves no boot, and neither does a clock that ran on: the claims may belong to a running
// container.
func TestClaimsOfAnUnknownBootStand(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	held := claim("x", time.Hour)
	enter(t, d, held, true)
	db := raw(t, path)
	mustExec(t, db, "UPDATE stile_meta SET boot = 'unknown'")
	enter(t, d, claim("x", time.Hour), false)
	if list, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil || len(list) != 1 || len(list[0].Claims) != 2 {
		t.Errorf("list = %+v, %v; want both claims", list, err)
	}
	if got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err; got != nil {
		t.Errorf("renewal = %v; want nil", got)
	}
	var known bool
	if err := db.QueryRowContext(t.Context(), "SELECT boot != 'unknown' FROM stile_meta").Scan(&known); err != nil || !known {
		t.Errorf("the boot is known again: %v, %v; want so, as no claim can be of a later one", known, err)
	}
}

// The noted clock, which shows a boot, must not lag far behind. Otherwise the claims of an unknown boot outlast their
// leases.
func TestRenewalsMoveTheClock(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	held := claim("x", time.Hour)
	enter(t, d, held, true)
	db := raw(t, path)
	mustExec(t, db, "UPDATE stile_meta SET seen = seen - 2000000")
	if got := d.Renew(t.Context(), []*driver.Claim{held})[0].Err; got != nil {
		t.Fatal(got)
	}
	var lag int64
	if err := db.QueryRowContext(t.Context(), "SELECT max(since) - (SELECT seen FROM stile_meta) FROM stile_claim").Scan(&lag); err != nil || lag > 0 {
		t.Errorf("the clock of the last write is %d microseconds before the claim, %v; want it moved", lag, err)
	}
}

// A wall clock that runs back, or was never right, must not repeat a ticket while the file lives.
func TestTicketsRiseWithoutTheWallClock(t *testing.T) {
	path := lockFile(t)
	d := open(t, path)
	const ahead = int64(1) << 52
	mustExec(t, raw(t, path), "UPDATE stile_meta SET last = 4503599627370496")
	for i := range int64(3) {
		c := claim("x", time.Minute)
		enter(t, d, c, true)
		if want := ahead + 1 + i; c.Ticket != want {
			t.Errorf("the ticket is %d; want %d", c.Ticket, want)
		}
		leave(t, d, c)
	}
}
