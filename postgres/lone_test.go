package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// count returns how many rows a condition selects.
func count(t *testing.T, d *Driver, where string) (n int) {
	t.Helper()
	err := d.query(timely(t), d.place.fill("SELECT count(*) FROM "+where), nil, func(rows pgx.Rows) error { return rows.Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	lone   = `"{schema}".{prefix}name WHERE ends > 0`
	queued = `"{schema}".{prefix}name n JOIN "{schema}".{prefix}claim c ON c.name = n.name WHERE n.queued`
)

// idle returns a driver for a name that was used and has an empty queue.
func idle(t *testing.T) *Driver {
	t.Helper()
	d := open(t, fresh(server))
	c := claim("name", "first")
	enter(t, d, c)
	leave(t, d, c)
	return d
}

// A claim alone is kept in the row of its name. It moves out, as it is, when another comes, and the next one that is
// alone is kept there again.
func TestLone(t *testing.T) {
	t.Parallel()
	d := idle(t)
	var last int64
	for range 3 {
		a, b := claim("name", "a"), claim("name", "b")
		a.Record, a.Owner = "who", "job"
		if p := enter(t, d, a); !p.Holds || p.TTL != a.TTL || p.Ticket <= last {
			t.Fatalf("entering alone = %+v; want to hold, with a ticket above %d", p, last)
		}
		if got := count(t, d, lone); got != 1 || count(t, d, queued) != 0 {
			t.Fatalf("%d names have a lone claim, want 1", got)
		}
		if err := renew(t, d, a); err != nil || count(t, d, lone) != 1 {
			t.Errorf("renewal = %v; want nil, and the claim in the row of its name", err)
		}
		if p := enter(t, d, b); p.Holds || p.Ahead != 1 || p.Blocker.Ticket != a.Ticket || p.Blocker.Record != "who" {
			t.Errorf("entering behind it = %+v", p)
		}
		if got := count(t, d, queued); got != 2 || count(t, d, lone) != 0 {
			t.Errorf("%d claims are in rows of their own, want 2", got)
		}
		if p := enter(t, d, a); !p.Holds || p.Ahead != 0 || p.Ticket != a.Ticket {
			t.Errorf("entering again = %+v", p)
		}
		listens(t, d, b)
		leave(t, d, a)
		await(t, d, b)
		leave(t, d, b)
		last = b.Ticket
	}
}

// What befalls a claim in the row of its name befalls it as it would in a queue.
func TestLoneEnds(t *testing.T) {
	t.Parallel()
	short := func(c *driver.Claim) { c.TTL, c.Wait = 150*time.Millisecond, 150*time.Millisecond }
	over := func(t *testing.T, d *Driver, _ *driver.Claim) {
		servertest.Until(t, "the lease is over", func() bool {
			list, err := d.List(timely(t), &driver.Query{Name: "name"})
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 0 || list[0].Claims[0].Remaining < 0
		})
	}
	tests := []struct {
		name    string
		make    func(c *driver.Claim)
		ends    func(t *testing.T, d *Driver, a *driver.Claim)
		another bool // what the next that tries is told
	}{
		{"left", nil, func(t *testing.T, d *Driver, a *driver.Claim) { leave(t, d, a) }, true},
		{"kept", nil, func(t *testing.T, d *Driver, a *driver.Claim) {
			if err := d.Leave(timely(t), &driver.Departure{Claim: a, Keep: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"broken", nil, func(t *testing.T, d *Driver, a *driver.Claim) {
			if s, err := d.Break(timely(t), &driver.Breakage{Name: "name"}); err != nil || s.Ticket != a.Ticket || !s.Holds {
				t.Fatalf("break = %+v, %v", s, err)
			}
		}, true},
		{"run out", short, over, true},
		{"run out, with a delay", func(c *driver.Claim) { short(c); c.Delay = time.Hour }, over, false},
		{"names emptied", nil, func(t *testing.T, d *Driver, _ *driver.Claim) {
			if err := d.query(timely(t), d.place.fill(`TRUNCATE "{schema}".{prefix}name`), nil, nil); err != nil {
				t.Fatal(err)
			}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := idle(t)
			a, b := claim("name", "a"), claim("name", "b")
			if tt.make != nil {
				tt.make(a)
			}
			enter(t, d, a)
			if got := count(t, d, lone); got != 1 {
				t.Errorf("%d names have a lone claim, want 1", got)
			}
			tt.ends(t, d, a)
			if err := renew(t, d, a); !errors.Is(err, driver.ErrGone) {
				t.Errorf("renewal = %v; want ErrGone", err)
			}
			if err := d.Leave(timely(t), &driver.Departure{Claim: a}); !errors.Is(err, driver.ErrGone) {
				t.Errorf("leaving = %v; want ErrGone", err)
			}
			b.Try = true
			p := enter(t, d, b)
			if p.Holds != tt.another || p.Holds && p.Ticket <= a.Ticket {
				t.Errorf("trying = %+v; want to hold: %v, with a ticket above %d", p, tt.another, a.Ticket)
			}
		})
	}
}
