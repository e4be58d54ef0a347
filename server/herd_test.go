package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// A counting store counts its requests, and a test can change the answers to renewals.
type counting struct {
	*memory.Driver
	answers func(cs []*driver.Claim, answers []driver.Renewal)

	mu      sync.Mutex // guards renewed
	renewed []int      // the claims of each renewal
}

func (c *counting) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	c.mu.Lock()
	c.renewed = append(c.renewed, len(cs))
	c.mu.Unlock()
	answers := c.Driver.Renew(ctx, cs)
	if c.answers != nil {
		c.answers(cs, answers)
	}
	return answers
}

// herd lets clients wait for a lock that somebody holds for an hour, and returns the holder's handle.
func (u *user) herd(clients int) (holder string, waits []chan said) {
	a := u.gets(200, "", "PUT", "a", "")
	u.gets(200, "", "POST", "a?ttl=1h", a.Handle)
	for i := range clients {
		waits = append(waits, u.begins(u.t.Context(), "PUT", "a?wait=5m&ttl=30s", fmt.Sprintf("%022d", i)))
	}
	return a.Handle, waits
}

// Trap: many clients wait for one name. Few requests to the store keep their places, and they get the lock in turn.
func TestHerdIsRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 1000
		f := &counting{Driver: memory.New()}
		u := newUser(t, f)
		holder, waits := u.herd(clients)
		time.Sleep(time.Minute)
		synctest.Wait()
		// Of ten seconds of a lease, a third passes between two renewals of a claim.
		if n := f.Calls(memory.Enter) - clients; n > 30 {
			t.Errorf("%d requests found single claims in a minute; want some for the first claim only", n)
		}
		if n := len(f.renewed); n > 60 {
			t.Errorf("%d renewals in a minute; want about 40, of 500 claims", n)
		}
		u.gets(200, "", "DELETE", "a", holder)
		before := f.Calls(memory.Enter)
		for i, wait := range waits {
			a := <-wait
			if a.status != 200 {
				t.Fatalf("client %d got %s; want the lock", i, a.text)
			}
			u.gets(200, "", "DELETE", "a", a.Handle)
		}
		if n := f.Calls(memory.Enter) - before; n > clients+clients/10 {
			t.Errorf("%d requests found claims while %d clients passed the lock on; want about one each", n, clients)
		}
	})
}

// A renewal without an answer is repeated. If none is answered, the clients are sent away in time to keep their places at
// another server; and only a claim that is gone has lost its place.
func TestHerdIsNotRenewed(t *testing.T) {
	silent := driver.Unreachable(driver.Unknown(errors.New("no answer")))
	for _, tt := range []struct {
		name    string
		fails   func(n int, c *driver.Claim) error // of the nth renewal
		code    string
		clients []int // that are sent away
	}{
		{"once", func(n int, _ *driver.Claim) error {
			if n == 1 {
				return silent
			}
			return nil
		}, "", nil},
		{"always", func(int, *driver.Claim) error { return silent }, "unreachable", []int{1, 2, 3}},
		{"one is gone", func(_ int, c *driver.Claim) error {
			if c.ID == server.StoredPut("a", fmt.Sprintf("%022d", 2)) {
				return driver.ErrGone
			}
			return nil
		}, "place_lost", []int{2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &counting{Driver: memory.New()}
			f.answers = func(cs []*driver.Claim, answers []driver.Renewal) {
				for i := range answers {
					if err := tt.fails(len(f.renewed), cs[i]); err != nil {
						answers[i] = driver.Renewal{Err: err}
					}
				}
			}
			u := newUser(t, f)
			_, waits := u.herd(4)
			time.Sleep(8 * time.Second)
			synctest.Wait()
			for i, wait := range waits {
				want := slices.Contains(tt.clients, i)
				select {
				case a := <-wait:
					if !want || a.Code != tt.code {
						t.Errorf("%s: client %d got %s; want %q for %v", tt.name, i, a.text, tt.code, tt.clients)
					}
					if a.Code == "unreachable" {
						u.begins(t.Context(), "PUT", "a?wait=1m", a.Handle)
					}
				default:
					if want {
						t.Errorf("%s: client %d waits on; want %s", tt.name, i, tt.code)
					}
				}
			}
			if n := len(queue(t, f, "a")); n != 5 {
				t.Errorf("%s: %d claims; want the holder and 4 that wait", tt.name, n)
			}
		})
	}
}

// The first client that waits is gone, and then the holder. The next client notices the ends of both leases, which no message
// says.
func TestHerdNoticesTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &counting{Driver: memory.New()}
		f.SetLink(memory.Unnotified)
		u := newUser(t, f)
		a := u.gets(200, "", "PUT", "a", "")
		u.gets(200, "", "POST", "a?ttl=25s", a.Handle)
		begin := time.Now()
		first, vanish := context.WithCancel(t.Context())
		defer vanish()
		u.begins(first, "PUT", "a?wait=5m&ttl=1h", "")
		second := u.begins(t.Context(), "PUT", "a?wait=5m&ttl=1h", "")
		third := u.begins(t.Context(), "PUT", "a?wait=5m&ttl=1h", "")
		time.Sleep(20 * time.Second)
		vanish()
		b := <-second
		if took := time.Since(begin); b.status != 200 || took < 25*time.Second || took > 30*time.Second+time.Millisecond {
			t.Errorf("the second got %s after %v; want the lock once both leases are over, 10 s after the first vanished", b.text, took)
		}
		u.gets(200, "", "DELETE", "a", b.Handle)
		begin = time.Now()
		if c := <-third; c.status != 200 || time.Since(begin) > 4*time.Second {
			t.Errorf("the third got %s after %v; want the lock after a third of its lease", c.text, time.Since(begin))
		}
	})
}

// Trap: while every claim of the herds is found by a request of its own, none is due, so nobody looks for long. A claim whose
// request ends then is due sooner.
func TestHerdKeepsWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		id := func(n int) string { return fmt.Sprintf("%022d", n) }
		early, enters := make(chan struct{}), make(chan struct{})
		var awaits, finds int // of the second client
		f.await = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			if c.ID == server.StoredPut("a", id(2)) {
				if awaits++; awaits == 1 {
					<-early
					return driver.Place{Ticket: c.Ticket}, nil
				}
			}
			return f.Driver.Await(ctx, c)
		}
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			if c.ID == server.StoredPut("a", id(2)) {
				if finds++; finds == 2 {
					<-enters
				}
			}
			return f.Driver.Enter(ctx, c)
		}
		u := newUser(t, f)
		for _, name := range []string{"a", "z"} {
			h := u.gets(200, "", "PUT", name, "")
			u.gets(200, "", "POST", name+"?ttl=1h", h.Handle)
		}
		u.begins(t.Context(), "PUT", "a?wait=5m&ttl=1s", id(1))
		second := u.begins(t.Context(), "PUT", "a?wait=5m&ttl=1s", id(2))
		close(early)
		synctest.Wait()
		u.begins(t.Context(), "PUT", "z?wait=5m&ttl=1s", id(3)) // as the first, so the herds look again
		close(enters)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		select {
		case a := <-second:
			t.Errorf("the second got %s; want that it waits on", a.text)
		default:
		}
		if finds != 2 || awaits < 2 {
			t.Errorf("the second was found by %d requests and heard by %d; want 2, and more than the early one", finds, awaits)
		}
	})
}
