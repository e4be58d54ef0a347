package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestConcurrentCatchesBugs checks that Concurrent finds bugs that show only with several clients or after an unknown
// outcome.
func TestConcurrentCatchesBugs(t *testing.T) {
	tests := []struct {
		bug  string
		says string
		make func() *buggy
	}{
		{"an id of unknown outcome is used for the next claim", "", sameID},
		{"a late leave takes the client's next claim out", "", lateLeaver},
		{"a leave answers from a read that is stale", "", staleReader},
		{"a renewal brings a claim back that has left", "", func() *buggy {
			return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := d.Renew(ctx, cs)
				if c := *cs[0]; answers[0].Err != nil {
					c.Ticket = 0
					p, err := d.Enter(ctx, &c)
					answers[0] = driver.Renewal{TTL: p.TTL, Err: err}
				}
				return answers
			}}
		}},
		{"a claim that was asked for and not heard of enters twice", "", func() *buggy {
			var mu sync.Mutex
			entered := map[string]bool{}
			return entering(func(c *driver.Claim) {
				mu.Lock()
				defer mu.Unlock()
				if c.Ticket == 0 && entered[c.ID] {
					c.ID += " again"
				}
				entered[c.ID] = true
			})
		}},
		{"a try enters behind others", "", entersAlways},
		{"a claim that waits is told that it holds", "", func() *buggy {
			return placed(func(p *driver.Place) { p.Holds = p.Ahead < 2 })
		}},
		{"tickets fall", "", func() *buggy {
			return placed(func(p *driver.Place) {
				if p.Ticket != 0 {
					p.Ticket = 1<<40 - p.Ticket>>20
				}
			})
		}},
		{"a leave is forgotten", "", func() *buggy {
			var mu sync.Mutex
			n := 0
			return &buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n%20 == 0 {
					return nil
				}
				return d.Leave(ctx, l)
			}}
		}},
		{"a claim that is there is said to be gone with its session", "", func() *buggy {
			var n atomic.Int64
			return &buggy{
				traits: func(t *driver.Traits) { t.InSession = true },
				renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
					answers := d.Renew(ctx, cs)
					if n.Add(1)%10 == 0 {
						answers[0] = driver.Renewal{Err: driver.ErrSession}
					}
					return answers
				},
			}
		}},
		{"what is kept is let go at once", "", func() *buggy {
			return &buggy{leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
				return d.Leave(ctx, &driver.Release{Claim: l.Claim})
			}}
		}},
		{"a break removes the head whatever was asked for", "", func() *buggy {
			return &buggy{breaks: func(ctx context.Context, d *memory.Driver, b *driver.BreakRequest) (driver.ClaimInfo, error) {
				return d.Break(ctx, &driver.BreakRequest{Name: b.Name})
			}}
		}},
		{"a job's earlier runs stay", "", func() *buggy {
			return entering(func(c *driver.Claim) { c.Reclaim = false })
		}},
		{"a job's claim removes the same run's", "", func() *buggy {
			return entering(func(c *driver.Claim) { c.Client += rand.Text() })
		}},
		{"a lease ends early", "", func() *buggy {
			return entering(func(c *driver.Claim) { c.TTL, c.Wait = c.TTL/8, c.Wait/8 })
		}},
		{"a renewal that comes after the lease brings the claim back", "", func() *buggy {
			return &buggy{renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
				answers := d.Renew(ctx, cs)
				if c := *cs[0]; answers[0].Err != nil && c.TTL < time.Second {
					c.Ticket = 0
					p, err := d.Enter(ctx, &c)
					answers[0] = driver.Renewal{TTL: p.TTL, Err: err}
				}
				return answers
			}}
		}},
	}
	for _, test := range tests {
		t.Run(test.bug, func(t *testing.T) {
			t.Parallel()
			store, bug := memory.NewStore(), test.make()
			s := Store{Open: func(testing.TB) driver.Driver {
				d := *bug
				d.Driver = store.Driver()
				return &d
			}}
			failures := record(t, func(r testing.TB) { Concurrent(r, s, 1, 100) })
			if len(failures) == 0 {
				t.Fatal("it passes")
			}
			for _, want := range []string{"seed 1, round ", "the calls on \"drivertest/", test.says} {
				if !strings.Contains(failures[0], want) {
					t.Errorf("the failure does not say %q: %s", want, failures[0])
				}
			}
		})
	}
}

// TestConcurrentNamesWhatWasNotMet checks that Concurrent names an event that never happened. Here nobody may remove a claim
// by hand.
func TestConcurrentNamesWhatWasNotMet(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	s := Store{Open: func(testing.TB) driver.Driver {
		return &buggy{Driver: store.Driver(),
			breaks: func(context.Context, *memory.Driver, *driver.BreakRequest) (driver.ClaimInfo, error) {
				return driver.ClaimInfo{}, driver.Refused(errors.ErrUnsupported)
			}}
	}}
	began := time.Now()
	failures := record(t, func(r testing.TB) { concurrent(r, s, 1, 2, time.Second) })
	if took := time.Since(began); took < time.Second {
		t.Errorf("it gave up after %v; want it to go on for a second", took)
	}
	for _, want := range []string{"seed 1: in 1s it did not happen that ", "a claim is removed by hand"} {
		if len(failures) != 1 || !strings.Contains(failures[0], want) {
			t.Errorf("the failures are %q; want one that says %q", failures, want)
		}
	}
}

// sameID returns a driver that derives a claim's id in the store from its client and name, as a store does that reuses a
// lease or a session as the key.
func sameID() *buggy {
	as := func(c *driver.Claim) *driver.Claim {
		copied := *c
		copied.ID, _, _ = strings.Cut(c.Client+c.Name, "|")
		return &copied
	}
	var mu sync.Mutex
	owner := map[string]string{} // by the id in the store: the id of the claim that uses it
	return &buggy{
		enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			mu.Lock()
			defer mu.Unlock()
			inner := as(c)
			if o := owner[inner.ID]; o != "" && o != c.ID { // in use: the client's next claim gets its own id
				return d.Enter(ctx, c)
			}
			p, err := d.Enter(ctx, inner)
			if err == nil && p.Ticket != 0 {
				owner[inner.ID] = c.ID
			}
			return p, err
		},
		await: func(context.Context, *memory.Driver, *driver.Claim) (driver.Place, error) {
			return driver.Place{}, nil
		},
		renew: func(ctx context.Context, d *memory.Driver, cs []*driver.Claim) []driver.Renewal {
			mu.Lock()
			defer mu.Unlock()
			if inner := as(cs[0]); owner[inner.ID] == cs[0].ID {
				return d.Renew(ctx, []*driver.Claim{inner})
			}
			return d.Renew(ctx, cs)
		},
		leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			mu.Lock()
			defer mu.Unlock()
			inner := as(l.Claim)
			if err := d.Leave(ctx, &driver.Release{Claim: l.Claim}); err == nil {
				return nil
			}
			if owner[inner.ID] == l.Claim.ID {
				owner[inner.ID] = ""
			}
			return d.Leave(ctx, &driver.Release{Claim: inner})
		},
	}
}

// lateLeaver returns a driver whose second Leave of a claim removes the client's latest claim of that name.
func lateLeaver() *buggy {
	var mu sync.Mutex
	latest, left := map[string]driver.Claim{}, map[string]bool{}
	return &buggy{
		enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			p, err := d.Enter(ctx, c)
			if err == nil && p.Holds {
				mu.Lock()
				defer mu.Unlock()
				latest[c.Client+c.Name] = *c
			}
			return p, err
		},
		leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			mu.Lock()
			defer mu.Unlock()
			err := d.Leave(ctx, l)
			next := latest[l.Claim.Client+l.Claim.Name]
			if errors.Is(err, driver.ErrGone) && left[l.Claim.ID] && next.ID != "" {
				_ = d.Leave(ctx, &driver.Release{Claim: &next})
			}
			left[l.Claim.ID] = true
			return err
		},
	}
}

// staleReader returns a driver whose Leave looks for the claim in an outdated listing.
func staleReader() *buggy {
	var mu sync.Mutex
	calls, seen := 0, map[string]bool{}
	return &buggy{
		enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			p, err := d.Enter(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%8 > 0 { // the listing misses every eighth claim
				seen[c.ID] = true
			}
			return p, err
		},
		leave: func(ctx context.Context, d *memory.Driver, l *driver.Release) error {
			mu.Lock()
			known := seen[l.Claim.ID]
			seen[l.Claim.ID] = true
			mu.Unlock()
			if !known {
				return driver.ErrGone
			}
			return d.Leave(ctx, l)
		},
	}
}

// entersAlways returns a driver that keeps a waiting try in the queue, but reports that it did not enter.
func entersAlways() *buggy {
	return &buggy{enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
		try := c.Try
		c.Try = false
		p, err := d.Enter(ctx, c)
		if try && err == nil && !p.Holds {
			p = driver.Place{Ahead: p.Ahead}
		}
		return p, err
	}}
}
