package etcd

import (
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// Every driver finds a claim that entered by another driver, and can remove it. But only a driver that renews or adopts the claim
// remembers it, and hears of the deletion of its key.
func TestRenewAdopts(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	home, other := open(t, s.Addr), open(t, s.Addr)
	alerts := make(chan string, 10)
	other.Alert(func(ids ...string) {
		for _, id := range ids {
			alerts <- id
		}
	})
	c, left := claimOn("name"), claimOn("left")
	p := enter(t, home, c)
	if again := enter(t, other, c); again.Ticket != p.Ticket || !again.Holds || again.TTL <= c.TTL/2 {
		t.Errorf("enter by another driver = %+v; want %+v", again, p)
	}
	enter(t, home, left)
	leave(t, other, left)
	if other.claims.of(c.ID) != nil || other.claims.of(left.ID) != nil {
		t.Error("a driver remembers a claim of another that it did not renew")
	}
	c.Ticket = p.Ticket
	if again := enter(t, other, c); again.Ticket != p.Ticket || !again.Holds || again.TTL <= c.TTL/2 {
		t.Errorf("enter by another driver, with the ticket = %+v; want %+v", again, p)
	}
	if err := renew(t, other, c); err != nil {
		t.Fatal(err)
	}
	k := other.claims.of(c.ID)
	if k == nil || k.state != claimFound {
		t.Fatalf("a driver that has renewed a claim knows %+v of it; want that it is there", k)
	}
	servertest.Until(t, "it is watched over", func() bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		return k.knows == hearing
	})
	remove(t, operator(t, s.Addr), k.key)
	if id := <-alerts; id != c.ID {
		t.Errorf("alert of %s; want %s", id, c.ID)
	}
}

// The longer lease of a claim with a lock-delay goes back only to the driver that granted it, whichever driver removes the
// claim. In two pools, it would serve two claims.
func TestLeaseGoesBackToItsDriver(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	home, other := open(t, s.Addr), open(t, s.Addr)
	c := claimOn("name")
	c.Delay = time.Minute
	enter(t, home, c)
	if err := renew(t, other, c); err != nil {
		t.Fatal(err)
	}
	leave(t, other, c)
	if n := other.pool.count; n != 0 {
		t.Errorf("%d leases are in the pool of a driver that granted none", n)
	}
	if err := renew(t, home, c); err == nil {
		t.Fatal("a claim that another driver took out is renewed")
	}
	if n := home.pool.count; n != 2 {
		t.Errorf("%d leases are in the pool of the driver that granted them; want both", n)
	}
}
