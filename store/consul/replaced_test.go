package consul

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A store that comes back empty, or as an old copy, would give the same tokens again. The driver refuses its claims.
func TestStoreIsReplaced(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d := open(t, "consul://"+s.Addr)
	for range 50 { // a server that starts makes some entries of its own
		c := claimOn("other")
		holds(t, d, c)
		leave(t, d, c)
	}
	holder := claimOn("name")
	holds(t, d, holder)
	s.Forget()
	servertest.Until(t, "the holder is told", func() bool { return errors.Is(renew(t, d, holder), driver.ErrGone) })
	for _, when := range []string{"first", "next"} {
		_, err := d.Enter(timely(t), claimOn("name"))
		says(t, err, "not the one that answered before")
		if !driver.NotApplied(err) {
			t.Errorf("the %s enter = %v; want it to be rejected", when, err)
		}
	}
	c := claimOn("name")
	holds(t, open(t, "consul://"+s.Addr), c)
	if c.Ticket >= holder.Ticket {
		t.Errorf("the new store's ticket is %d, and the old one's %d; want that tokens repeat, or this shows nothing", c.Ticket, holder.Ticket)
	}
}

// The store is replaced, and the answer to the request for the claim's key is lost. The client finds the claim and removes
// it.
func TestStoreIsReplacedWhileAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d, way := delayed(t, s)
	for range 50 {
		c := claimOn("other")
		holds(t, d, c)
		leave(t, d, c)
	}
	holder := claimOn("name")
	holds(t, d, holder)
	s.Forget()
	servertest.Until(t, "the holder is told", func() bool { return errors.Is(renew(t, d, holder), driver.ErrGone) })
	c := claimOn("name")
	way.text = `"Verb":"lock"`
	if _, err := d.Enter(timely(t), c); err == nil || driver.NotApplied(err) {
		t.Fatalf("enter = %v; want an unknown outcome", err)
	}
	way.arrive(t)
	p, err := d.Enter(timely(t), c)
	says(t, err, "not the one that answered before")
	if p.Ticket != 0 {
		t.Errorf("enter = %+v; want no ticket, since the old store gave %d", p, holder.Ticket)
	}
	if left := (operator{t, "http://" + s.Addr}).under("stile/name/"); len(left) != 0 {
		t.Errorf("the keys %+v are left; want none", left)
	}
}
