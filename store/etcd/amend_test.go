package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// amend renews a claim with an amendment.
func amend(t testing.TB, d *Driver, c *driver.Claim, a driver.Amendment) {
	t.Helper()
	claim := *c
	claim.Amend = &a
	if err := renew(t, d, &claim); err != nil {
		t.Fatalf("amendment %+v = %v; want nil", a, err)
	}
}

// A claim whose key has moved to the lease with the lock-delay keeps this lease when it is amended. Then it can leave.
func TestAmendKeepsTheDelay(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	c := claimOn("name")
	c.Delay = time.Minute
	enter(t, d, c)
	before, err := d.find(timely(t), c)
	if err != nil {
		t.Fatal(err)
	}
	amend(t, d, c, driver.Amendment{Weight: 1, Record: "second"})
	now, err := d.find(timely(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if now.lease != before.lease || now.created != before.created || now.Weight != 1 || now.Record != "second" {
		t.Errorf("the key is %+v, and was %+v; want the same lease and revision of creation, and the amendment", now, before)
	}
	leave(t, d, c)
	if left := keys(t, operator(t, s.Addr), d.wire.folder("name")); len(left) != 0 {
		t.Errorf("after it has left there are %q; want nothing", left)
	}
}

// awaited waits until a claim holds. It calls Await again and again, since Await may return early.
func awaited(ctx context.Context, d *Driver, c *driver.Claim) (driver.Place, error) {
	for {
		p, err := d.Await(ctx, c)
		if err == nil && !p.Holds {
			p, err = d.Enter(ctx, c)
		}
		if err != nil || p.Holds {
			return p, err
		}
	}
}

// etcd's own mutex knows no readers. It waits until a writer that became a reader has left.
func TestForeignMutexBehindDowngrade(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	c, reader := claimOn("name"), claimOn("name")
	reader.Weight = 1
	enter(t, d, c)
	enter(t, d, reader)
	client := operator(t, s.Addr)
	session, err := concurrency.NewSession(client)
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	mutex := concurrency.NewMutex(session, "stile/name")
	go func() { locked <- mutex.Lock(timely(t)) }()
	queued(t, client, d.wire.folder("name"), 3)
	amend(t, d, c, driver.Amendment{Weight: 1})
	if p, err := awaited(timely(t), d, reader); err != nil || !p.Holds {
		t.Errorf("the reader behind = %+v, %v; want it to hold", p, err)
	}
	leave(t, d, reader)
	if n := len(keys(t, client, d.wire.folder("name"))); n != 2 {
		t.Errorf("there are %d keys; want the amended claim's and the mutex's", n)
	}
	select {
	case err := <-locked:
		t.Fatalf("etcd's mutex is locked (%v) while the reader holds", err)
	default:
	}
	leave(t, d, c)
	if err := <-locked; err != nil {
		t.Errorf("etcd's mutex = %v; want the lock when the reader has left", err)
	}
}

// If the key changes between the read and the write, the write of an amendment is blocked, and the key stays.
func TestAmendOfAChangedKey(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	c := claimOn("name")
	enter(t, d, c)
	stale, err := d.find(timely(t), c)
	if err != nil {
		t.Fatal(err)
	}
	amend(t, d, c, driver.Amendment{Record: "second"})
	late := *c
	late.Amend = &driver.Amendment{Record: "late"}
	a := d.newAttempt(&late)
	m := amends(d.sit(a), &view{q: queue{*stale}}, nil)
	if was, err := d.change(timely(t), a, m); err != nil || !was.blocked() {
		t.Errorf("rewriting a key that has changed = %+v, %v; want it blocked", was, err)
	}
	if now, err := d.find(timely(t), c); err != nil || now.Record != "second" {
		t.Errorf("the key is %+v, %v; want the record of the amendment that was applied", now, err)
	}
}
