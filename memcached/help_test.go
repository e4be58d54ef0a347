package memcached

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// store is what both layouts are.
type store interface {
	driver.Driver
	driver.Lister
	driver.Breaker
	driver.Alerter
}

// layouts are the parameters of both.
var layouts = map[string]string{"queue": "", "plain": "?layout=plain"}

// timely returns a context that ends before the test does.
func timely(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, addr, parameters string) store {
	t.Helper()
	d, err := driver.Open(timely(t), "memcached://"+addr+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(store)
}

// eachLayout runs a test for both layouts, each with a server of its own.
func eachLayout(t *testing.T, args []string, test func(t *testing.T, s *servertest.Server, parameters string)) {
	t.Parallel()
	for layout, parameters := range layouts {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			test(t, servertest.Memcached(t, args...), parameters)
		})
	}
}

func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client of " + id, Weight: driver.All, Capacity: driver.All,
		TTL: time.Minute, Wait: time.Minute, Record: "record of " + id,
	}
}

// enter returns the place of a claim that must be let in, and has the claim remember its ticket.
func enter(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Enter(timely(t), c)
	if err != nil {
		t.Fatalf("enter %s: %v", c.ID, err)
	}
	c.Ticket = p.Ticket
	return p
}

// holds enters a claim that must hold.
func holds(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p := enter(t, d, c)
	if !p.Holds {
		t.Fatalf("enter %s = %+v; want a claim that holds", c.ID, p)
	}
	return p
}

// waits enters a claim that must not hold.
func waits(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p := enter(t, d, c)
	if p.Holds {
		t.Fatalf("enter %s = %+v; want a claim that waits", c.ID, p)
	}
	return p
}

func renew(t testing.TB, d driver.Driver, c *driver.Claim) error {
	t.Helper()
	return d.Renew(timely(t), []*driver.Claim{c})[0].Err
}

func leave(t testing.TB, d driver.Driver, c *driver.Claim) error {
	t.Helper()
	return d.Leave(timely(t), &driver.Departure{Claim: c})
}

// gone fails unless every verb says that the claim is not there.
func gone(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	_, err := d.Enter(timely(t), c)
	for verb, err := range map[string]error{"enter": err, "renew": renew(t, d, c), "leave": leave(t, d, c)} {
		if !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s of %s = %v; want ErrGone", verb, c.ID, err)
		}
	}
}

// says fails unless an error has all these words in it, and is one line.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error is %q; want %q in it", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error %q has more than one line", err)
	}
}

// marks fails unless an error says so of the outcome.
func marks(t testing.TB, err error, rejected, unreachable bool) {
	t.Helper()
	if driver.IsRejected(err) != rejected || driver.IsUnreachable(err) != unreachable {
		t.Errorf("%v: rejected %v, unreachable %v; want %v, %v", err, driver.IsRejected(err), driver.IsUnreachable(err), rejected, unreachable)
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
