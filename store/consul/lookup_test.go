package consul

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Every call finds a claim that another client entered, and only Renew adopts it.
func TestClaimOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	one, two := open(t, "consul://"+s.Addr), open(t, "consul://"+s.Addr)
	holder, waiter := claimOn("name"), claimOn("name")
	holds(t, one, holder)
	waits(t, one, waiter)
	for _, c := range []*driver.Claim{holder, waiter} {
		ticket := c.Ticket
		for _, known := range []int64{ticket, 0} {
			c.Ticket = known
			if p := enter(t, two, c); p.Ticket != ticket || p.Holds != (c == holder) {
				t.Errorf("enter with ticket %d = %+v; want it where it stands, with ticket %d", known, p, ticket)
			}
			if two.claims.of(c) != nil {
				t.Error("Enter takes up a claim of another client")
			}
		}
	}
	if err := renew(t, two, holder); err != nil {
		t.Fatalf("renewal = %v; want nil", err)
	}
	if lc := two.claims.of(holder); lc == nil || !lc.hasLockKeyLocked() {
		t.Errorf("a renewal leaves %+v; want a claim that holds", lc)
	}
	leave(t, two, holder)
	holds(t, two, waiter)
	leave(t, two, waiter)
	if left := by.under("stile/"); len(left) != 0 {
		t.Errorf("the store has %+v; want nothing", left)
	}
	for _, c := range []*driver.Claim{holder, waiter} {
		if err := renew(t, one, c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("renewal by the client that entered it = %v; want ErrGone", err)
		}
	}
}

// A claim that was removed, and entered again by another client, is found: Enter leaves it to the other client, and Renew
// adopts it.
func TestClaimEntersElsewhere(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	one, two := open(t, "consul://"+s.Addr), open(t, "consul://"+s.Addr)
	for name, found := range map[string]func(c *driver.Claim) error{
		"enter": func(c *driver.Claim) error {
			p, err := one.Enter(timely(t), c)
			if err == nil && (!p.Holds || p.Ticket != c.Ticket) {
				t.Errorf("enter = %+v; want it to hold with ticket %d", p, c.Ticket)
			}
			return err
		},
		"renew": func(c *driver.Claim) error { return renew(t, one, c) },
	} {
		c := claimOn(name)
		holds(t, one, c)
		was := one.claims.of(c)
		by.destroy(by.queued(name, 1)[0])
		c.Ticket = 0
		holds(t, two, c)
		if err := found(c); err != nil {
			t.Errorf("%s = %v; want it found", name, err)
		}
		if is := one.claims.of(c); is == was || (is != nil) != (name == "renew") {
			t.Errorf("%s: the client knows %+v of it; want that Renew alone takes it up", name, is)
		}
		if was.state != claimLost {
			t.Errorf("%s: what went is in state %d; want it lost", name, was.state)
		}
		leave(t, two, c)
	}
}

// A claim that left during an Enter does not hold, whatever that Enter has read.
func TestLeftDuringEnter(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	d := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	holds(t, d, c)
	lc := d.claims.of(c)
	q, err := d.look(timely(t), c.Name)
	if err != nil || lc == nil {
		t.Fatalf("the claim is %+v, its queue %+v, %v; want both", lc, q, err)
	}
	leave(t, d, c)
	if p, _, _, err := d.stand(timely(t), seatOf(c, lc), lc, q); !errors.Is(err, driver.ErrGone) {
		t.Errorf("what the Enter saw = %+v, %v; want ErrGone", p, err)
	}
	holds(t, d, claimOn("name"))
	if n := by.sessions(); n != 1 {
		t.Errorf("there are %d sessions; want that the one which the claim left serves the next", n)
	}
}

// A definitely refused request leaves its session to the next attempt.
func TestRefusedEnterKeepsTheSession(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d, n := counted(t, s.Addr)
	c := claimOn("name")
	c.Record = string(make([]byte, 600<<10)) // more than a key holds
	if _, err := d.Enter(timely(t), c); err == nil || !driver.NotApplied(err) {
		t.Fatalf("enter = %v; want a definite error", err)
	}
	n.take()
	c.Record = ""
	holds(t, d, c)
	if made := n.take(); len(made) != 1 || made[0] != http.MethodPut+" /v1/txn" {
		t.Errorf("the next attempt took %q; want one transaction", made)
	}
}
