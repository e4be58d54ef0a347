//go:build unix

package drive

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Claim returns one for the whole lock.
func Claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client of " + id, Weight: driver.All, Capacity: driver.All,
		TTL: time.Minute, Wait: time.Minute,
	}
}

// A Lone is a client of a database, new and empty, that keeps a claim which is alone in the row of its name.
type Lone struct {
	driver.Driver
	Alone   func(t *testing.T) int // names with a claim in their row
	Queued  func(t *testing.T) int // claims in rows of their own
	Empty   func(t *testing.T)     // takes the rows of all names away
	Listens func(t *testing.T, c *driver.Claim)
}

// used returns a client for a name that was used and has an empty queue.
func used(t *testing.T, open func(t *testing.T) *Lone) *Lone {
	t.Helper()
	d := open(t)
	c := Claim("name", "first")
	Enter(t, d, c)
	Leave(t, d, c)
	return d
}

// LoneMovesOut tests that a claim which is alone is kept in the row of its name, that it moves out, as it is, when another
// comes, and that the next one which is alone is kept there again.
func LoneMovesOut(t *testing.T, open func(t *testing.T) *Lone) {
	d := used(t, open)
	var last int64
	for range 3 {
		a, b := Claim("name", "a"), Claim("name", "b")
		a.Record, a.Owner = "who", "job"
		if p := Enter(t, d, a); !p.Holds || p.TTL != a.TTL || p.Ticket <= last {
			t.Fatalf("entering alone = %+v; want to hold, with a ticket above %d", p, last)
		}
		if got := d.Alone(t); got != 1 || d.Queued(t) != 0 {
			t.Fatalf("%d names have a lone claim, want 1", got)
		}
		if err := Renew(t, d, a); err != nil || d.Alone(t) != 1 {
			t.Errorf("renewal = %v; want nil, and the claim in the row of its name", err)
		}
		if p := Enter(t, d, b); p.Holds || p.Ahead != 1 || p.Blocker.Ticket != a.Ticket || p.Blocker.Record != "who" {
			t.Errorf("entering behind it = %+v", p)
		}
		if got := d.Queued(t); got != 2 || d.Alone(t) != 0 {
			t.Errorf("%d claims are in rows of their own, want 2", got)
		}
		if p := Enter(t, d, a); !p.Holds || p.Ahead != 0 || p.Ticket != a.Ticket {
			t.Errorf("entering again = %+v", p)
		}
		d.Listens(t, b)
		Leave(t, d, a)
		if p, err := d.Await(Timely(t), b); err != nil || !p.Holds {
			t.Fatalf("await = %+v, %v; want a place that holds", p, err)
		}
		Leave(t, d, b)
		last = b.Ticket
	}
}

// LoneEnds tests that what befalls a claim in the row of its name befalls it as it would in a queue.
func LoneEnds(t *testing.T, open func(t *testing.T) *Lone) {
	short := func(c *driver.Claim) { c.TTL, c.Wait = 150*time.Millisecond, 150*time.Millisecond }
	over := func(t *testing.T, d *Lone, _ *driver.Claim) {
		servertest.Until(t, "the lease is over", func() bool {
			list, err := d.Driver.(driver.Lister).List(Timely(t), &driver.Query{Name: "name"})
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 0 || list[0].Claims[0].Remaining < 0
		})
	}
	tests := []struct {
		name    string
		make    func(c *driver.Claim)
		ends    func(t *testing.T, d *Lone, a *driver.Claim)
		another bool // whether the next try learns of another claim
	}{
		{"left", nil, func(t *testing.T, d *Lone, a *driver.Claim) { Leave(t, d, a) }, true},
		{"kept", nil, func(t *testing.T, d *Lone, a *driver.Claim) {
			if err := d.Leave(Timely(t), &driver.Release{Claim: a, Keep: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"broken", nil, func(t *testing.T, d *Lone, a *driver.Claim) {
			s, err := d.Driver.(driver.Breaker).Break(Timely(t), &driver.BreakRequest{Name: "name"})
			if err != nil || s.Ticket != a.Ticket || !s.Holds {
				t.Fatalf("break = %+v, %v", s, err)
			}
		}, true},
		{"run out", short, over, true},
		{"run out, with a delay", func(c *driver.Claim) { short(c); c.Delay = time.Hour }, over, false},
		{"names emptied", nil, func(t *testing.T, d *Lone, _ *driver.Claim) { d.Empty(t) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := used(t, open)
			a, b := Claim("name", "a"), Claim("name", "b")
			if tt.make != nil {
				tt.make(a)
			}
			Enter(t, d, a)
			if got := d.Alone(t); got != 1 {
				t.Errorf("%d names have a lone claim, want 1", got)
			}
			tt.ends(t, d, a)
			if err := Renew(t, d, a); !errors.Is(err, driver.ErrGone) {
				t.Errorf("renewal = %v; want ErrGone", err)
			}
			if err := d.Leave(Timely(t), &driver.Release{Claim: a}); !errors.Is(err, driver.ErrGone) {
				t.Errorf("leaving = %v; want ErrGone", err)
			}
			b.Try = true
			p := Enter(t, d, b)
			if p.Holds != tt.another || p.Holds && p.Ticket <= a.Ticket {
				t.Errorf("trying = %+v; want to hold: %v, with a ticket above %d", p, tt.another, a.Ticket)
			}
		})
	}
}
