package consul

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A writer that becomes a reader gives the lock's key back in the same transaction. Then renewal, Enter and Leave need no
// lock's key. A record that is amended before is in both keys.
func TestAmendTheLockKey(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	c.Record = "first"
	entered := func(c *driver.Claim) driver.Place {
		p, err := d.Enter(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	c.Ticket = entered(c).Ticket
	amend := func(a *driver.Amendment) *queue {
		claim := *c
		claim.Amend = a
		if r := d.Renew(t.Context(), []*driver.Claim{&claim})[0]; r.Err != nil {
			t.Fatalf("renewal with %+v = %v; want nil", a, r.Err)
		}
		q, err := d.look(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	q := amend(&driver.Amendment{Record: "second"})
	if !q.hasLockKey(q.entries[0].Session) || string(q.lockKey.Value) != "second" || q.entries[0].Record != "second" {
		t.Errorf("the keys are %+v and %+v; want the new record in both", q.lockKey, q.entries[0])
	}
	c.Record = "second"
	if q = amend(&driver.Amendment{Weight: 1}); q.lockKey != nil || q.entries[0].Weight != 1 || q.entries[0].ticket() != c.Ticket {
		t.Errorf("the keys are %+v and %+v; want a reader with ticket %d, and no lock's key", q.lockKey, q.entries[0], c.Ticket)
	}
	c.Weight = 1
	if q = amend(nil); q.lockKey != nil {
		t.Error("a renewal takes the lock's key again")
	}
	if p := entered(c); !p.Holds || p.Ticket != c.Ticket {
		t.Errorf("the reader's place is %+v; want it to hold with ticket %d", p, c.Ticket)
	}
	other := shared("name")
	if p := entered(other); !p.Holds {
		t.Errorf("another reader's place is %+v; want it to hold", p)
	}
	for _, one := range []*driver.Claim{other, c} {
		if err := d.Leave(t.Context(), &driver.Release{Claim: one}); err != nil {
			t.Errorf("leave: %v", err)
		}
	}
	if q, err := d.look(t.Context(), "name"); err != nil || len(q.entries) != 0 || q.lockKey != nil {
		t.Errorf("when all have left there is %+v, %v; want nothing", q, err)
	}
}

// A lock-delay is on the lock's key, which a reader does not have. So a writer with a lock-delay cannot become a reader, and
// keeps both; its record can change.
func TestDelayedWriterStaysWriter(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	c.Record, c.Delay = "first", time.Second
	p, err := d.Enter(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Ticket = p.Ticket
	amended := func(a *driver.Amendment) error {
		claim := *c
		claim.Amend = a
		return d.Renew(t.Context(), []*driver.Claim{&claim})[0].Err
	}
	if err := amended(&driver.Amendment{Weight: 1}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("amended to share, the claim says %v; want ErrUnsupported", err)
	}
	if err := amended(&driver.Amendment{Record: "second"}); err != nil {
		t.Errorf("the amendment of the record says %v; want nil", err)
	}
	q, err := d.look(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	if e := q.entries[0]; !q.hasLockKey(e.Session) || e.Weight != driver.All || e.Record != "second" {
		t.Errorf("the keys are %+v and %+v; want a writer with the lock's key and the new record", q.lockKey, e)
	}
}

// The answer to an amendment is lost, and the claim is amended again. Later renewals still notice that the lock's key is
// gone, which lets a client of Consul's own take the lock.
func TestAmendmentOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Consul(t, nil)
			d, way := delayed(t, s)
			c := claimOn("name")
			holds(t, d, c)
			way.text = `"Verb":"check-index"`
			c.Amend = &driver.Amendment{Record: "second"}
			if err := renew(t, d, c); err == nil || driver.NotApplied(err) {
				t.Fatalf("amendment = %v; want an unknown outcome", err)
			}
			if applied {
				way.arrive(t)
			}
			if err := renew(t, d, c); err != nil {
				t.Fatalf("the amendment again = %v; want nil", err)
			}
			c.Record, c.Amend = "second", nil
			operator{t, "http://" + s.Addr}.must(http.MethodDelete, "kv/stile/name/.lock", "")
			if err := renew(t, d, c); !errors.Is(err, driver.ErrGone) {
				t.Errorf("renewal without the lock's key = %v; want ErrGone", err)
			}
		})
	}
}

// A transaction of an amendment that arrives after a later one finds another index, and changes nothing.
func TestAmendmentThatComesLate(t *testing.T) {
	t.Parallel()
	d := open(t, "consul://"+servertest.Consul(t, nil).Addr)
	c := claimOn("name")
	if _, err := d.Enter(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	q, err := d.look(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	late := rewrite(q, 0, driver.All, "late")
	c.Amend = &driver.Amendment{Record: "later"}
	if r := d.Renew(t.Context(), []*driver.Claim{c})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if _, bad, err := d.agent.transact(t.Context(), late); bad == nil || err != nil {
		t.Errorf("the late transaction = %v, %v; want a conflict", bad, err)
	}
	if q, err = d.look(t.Context(), "name"); err != nil || q.entries[0].Record != "later" {
		t.Errorf("the claim is %+v, %v; want the later record", q.entries[0], err)
	}
}
