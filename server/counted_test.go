package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
)

// A claim counts for as long as its lock may be closed, and no longer, whatever its client asks for.
func TestClaimsCountAsTheyLast(t *testing.T) {
	const second, hour = time.Second, time.Hour
	claimOf := func(name string, ttl, wait, delay time.Duration) api.Claim {
		c := named(name, "x")
		c.TTL, c.Wait, c.Delay = ttl, wait, delay
		return c
	}
	short, long, delayed := claimOf("a", 10*second, 10*second, 0), claimOf("a", hour, hour, 0), claimOf("a", 10*second, 10*second, hour)
	another := short
	another.Ticket = 7
	enter := func(c api.Claim) (string, any) { return api.Enter, &api.EnterRequest{Claim: c} }
	renew := func(c api.Claim) (string, any) { return api.Renew, &api.RenewRequest{Claims: []api.Claim{c}} }
	leave := func(c api.Claim, keep time.Duration) (string, any) {
		return api.Leave, &api.LeaveRequest{Claim: c, Keep: keep}
	}
	for _, tt := range []struct {
		name  string
		does  func(ask func(path string, q any), pass func(time.Duration))
		lasts time.Duration // from the last request on
	}{
		{"one that waits, and whose client is gone", func(ask func(string, any), _ func(time.Duration)) {
			ask(enter(claimOf("held", hour, 6*second, 0)))
		}, 6 * second},
		{"one with a longer lease before", func(ask func(string, any), _ func(time.Duration)) {
			ask(enter(long))
			ask(renew(short))
		}, hour},
		{"a lost one with a lock-delay", func(ask func(string, any), pass func(time.Duration)) {
			ask(enter(delayed))
			pass(10 * second)
			ask(renew(short))
		}, hour},
		{"a kept one that leaves again", func(ask func(string, any), _ func(time.Duration)) {
			ask(enter(short))
			ask(leave(short, hour))
			ask(leave(short, 0))
		}, hour},
		{"a kept one that is renewed and enters again", func(ask func(string, any), _ func(time.Duration)) {
			ask(enter(short))
			ask(leave(short, hour))
			ask(renew(short))
			ask(enter(short))
		}, hour},
		{"one that is renewed by another ticket", func(ask func(string, any), _ func(time.Duration)) {
			ask(enter(short))
			ask(renew(another))
		}, 10 * second},
		{"a lost one", func(ask func(string, any), _ func(time.Duration)) {
			ask(enter(long))
			ask(api.Break, &api.BreakRequest{Name: "a"})
			ask(renew(long))
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimited(t, server.Options{MaxClaims: 1}, "ci", "ops")
				strict(l.fake)
				if status, text := l.ask("ops", api.Enter, &api.EnterRequest{Claim: claimOf("held", 2*hour, hour, 0)}); status != 200 {
					t.Fatal(text)
				}
				tt.does(func(path string, q any) {
					if status, text := l.ask("ci", path, q); status == 429 {
						t.Errorf("%s is refused: %s", path, text)
					}
				}, time.Sleep)
				try := func(id string) int {
					status, _ := l.ask("ci", api.Enter, &api.EnterRequest{Claim: named("b", id)})
					return status
				}
				if tt.lasts > 0 {
					time.Sleep(tt.lasts - second/2)
					if status := try("y"); status != 429 {
						t.Errorf("a second claim beside it = %d; want 429", status)
					}
					time.Sleep(2 * second)
				}
				if status := try("z"); status != 200 {
					t.Errorf("a claim after it = %d; want 200", status)
				}
			})
		})
	}
}

// strict makes a store find a claim only by its own ticket, as etcd does.
func strict(f *fake) {
	f.renew = func(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
		if cs[0].Ticket != 7 {
			return f.Driver.Renew(ctx, cs)
		}
		return []driver.Renewal{{Err: driver.ErrGone}}
	}
}

// A store without a queue has nothing of a claim that waits, so a claim with the ticket of all that wait is a new one, and
// has its bounds.
func TestClaimsWithoutQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delay time.Duration
		l := newLimited(t, server.Options{MaxClaims: 1, MaxTTL: 10 * time.Second}, "ci")
		l.traits = func(t *driver.Traits) { t.Ordered = false }
		l.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			as := *c
			as.Ticket, delay = 0, c.Delay
			return l.Driver.Enter(ctx, &as)
		}
		first, second := named("a", "x"), named("b", "y")
		first.Ticket, first.Delay, second.Ticket = 1, time.Hour, 1
		if status, text := l.ask("ci", api.Enter, &api.EnterRequest{Claim: first}); status != 200 {
			t.Fatal(text)
		}
		if status, text := l.ask("ci", api.Enter, &api.EnterRequest{Claim: second}); status != 429 {
			t.Errorf("a second claim, with the ticket of a waiter = %d %s; want 429", status, text)
		}
		if delay > 10*time.Second {
			t.Errorf("it has a lock-delay of %v; want the longest lease at most", delay)
		}
	})
}
