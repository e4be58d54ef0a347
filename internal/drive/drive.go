// Package drive makes the calls of a driver in tests of drivers. A call that must succeed fails the test if it does not,
// and none can hang.
package drive

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// within is longer than any call that ends.
const within = time.Minute

// Timely returns a context for a call that must end.
func Timely(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	return ctx
}

// Opener returns a function that opens another client of the store at a URL. The caller closes it.
func Opener(url string) func(t testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		d, err := driver.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// Enter enters a claim, which notes its ticket.
func Enter(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p, err := d.Enter(Timely(t), c)
	if err != nil {
		t.Fatalf("enter %s: %v", c.ID, err)
	}
	if p.Ticket != 0 {
		c.Ticket = p.Ticket
	}
	return p
}

// Holds enters a claim that must hold.
func Holds(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p := Enter(t, d, c)
	if !p.Holds {
		t.Fatalf("enter %s = %+v; want it to hold", c.ID, p)
	}
	return p
}

// Waits enters a claim that must not hold.
func Waits(t testing.TB, d driver.Driver, c *driver.Claim) driver.Place {
	t.Helper()
	p := Enter(t, d, c)
	if p.Holds {
		t.Fatalf("enter %s = %+v; want it to wait", c.ID, p)
	}
	return p
}

// Renew renews one claim.
func Renew(t testing.TB, d driver.Driver, c *driver.Claim) error {
	t.Helper()
	return d.Renew(Timely(t), []*driver.Claim{c})[0].Err
}

// Leave removes a claim that is there.
func Leave(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	if err := d.Leave(Timely(t), &driver.Release{Claim: c}); err != nil {
		t.Fatalf("leave %s: %v", c.ID, err)
	}
}

// Listed returns how many claims a store lists.
func Listed(t testing.TB, d driver.Driver) (claims int) {
	t.Helper()
	list, err := d.(driver.Lister).List(Timely(t), &driver.Query{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, l := range list {
		claims += len(l.Claims)
	}
	return claims
}

// Says fails unless an error has all of these texts and is one line fit to be shown: tests use the password hunter2, and
// Redis names its scripts.
func Says(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one that says %q", parts)
		return
	}
	text := err.Error()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the error %q does not say %q", text, part)
		}
	}
	if strings.ContainsAny(text, "\r\n") || strings.HasSuffix(text, ".") ||
		strings.Contains(text, "hunter2") || strings.Contains(text, "user_script") {
		t.Errorf("the error %q is not fit to be shown", text)
	}
}

// Marks checks what an error says about the request and the store.
func Marks(t testing.TB, err error, rejected, unreachable bool) {
	t.Helper()
	if driver.NotApplied(err) != rejected || driver.IsUnreachable(err) != unreachable {
		t.Errorf("%v: rejected %v, unreachable %v; want %v, %v", err, driver.NotApplied(err),
			driver.IsUnreachable(err), rejected, unreachable)
	}
}

// Refuses checks that a store cannot be opened, and why.
func Refuses(t testing.TB, url string, parts ...string) error {
	t.Helper()
	d, err := driver.Open(Timely(t), url)
	if err == nil {
		d.Close()
		t.Errorf("%s can be opened", url)
	}
	Says(t, err, parts...)
	return err
}
