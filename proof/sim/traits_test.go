package sim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A declared driver declares other traits than memory.
type declared struct {
	*memory.Driver
	change func(*driver.Traits)
}

func (d *declared) Traits() driver.Traits {
	t := d.Driver.Traits()
	d.change(&t)
	return t
}

// declaring adds a client of a store with other traits.
func (w *world) declaring(change func(*driver.Traits)) *stile.Client {
	w.Helper()
	c, err := stile.New(&declared{w.store.Driver(), change}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// A client cannot leave a claim to another client if the claim ends with the session, or the connection.
func TestBoundClaimsCannotBeDetached(t *testing.T) {
	for kind, change := range map[string]func(*driver.Traits){
		"bound":  func(t *driver.Traits) { t.InSession = true },
		"pinned": func(t *driver.Traits) { t.OwnClient = true },
	} {
		inWorld(t, func(w *world) {
			c := w.declaring(change)
			defer c.Close()
			lease := w.lock(c.Mutex("x"))
			if _, err := lease.Detach(w.Context()); !errors.Is(err, stile.ErrUnsupported) {
				w.Errorf("detach of a %s claim: %v; want ErrUnsupported", kind, err)
			}
			pass(time.Minute)
			if err := lease.Check(); err != nil {
				w.Errorf("the %s lease that could not be detached: %v; want it held", kind, err)
			}
			w.unlock(lease)
		})
	}
}

func TestLockDelayIsRefusedWhereThereIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.declaring(func(t *driver.Traits) { t.Delay = false })
		defer c.Close()
		l := c.Mutex("x").With(stile.LockOptions{LockDelay: time.Second})
		for verb, take := range map[string]func(context.Context) (*stile.Lease, error){"lock": l.Lock, "try": l.TryLock} {
			if _, err := take(w.Context()); !errors.Is(err, stile.ErrUnsupported) {
				w.Errorf("%s: %v; want ErrUnsupported", verb, err)
			}
		}
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left of what was refused", n)
		}
		w.unlock(w.lock(c.Mutex("x")))
	})
}

// An aged driver gives shorter leases than the client requests, as a session of some age does: they last until the session
// ends. A renewal of a claim renews the session.
type aged struct {
	*memory.Driver
	left func() time.Duration
}

func (d *aged) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	short := *c
	short.TTL = min(c.TTL, d.left())
	return d.Driver.Enter(ctx, &short)
}

func (d *aged) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	short := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		one := *c
		one.TTL = min(c.TTL, d.left())
		short[i] = &one
	}
	return d.Driver.Renew(ctx, short)
}

// The client renews by the lease that the store gave, not by the one that it requested.
func TestAShorterLeaseThanAskedForIsRenewedInTime(t *testing.T) {
	for name, left := range map[string]func(calls int) time.Duration{
		"always short":  func(int) time.Duration { return 2 * time.Second },
		"short at once": func(n int) time.Duration { return min(time.Duration(n)*time.Second, 15*time.Second) },
		"short at times": func(n int) time.Duration {
			if n%3 == 0 {
				return time.Second
			}
			return 15 * time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				calls := 0
				d := &aged{w.store.Driver(), func() time.Duration { calls++; return left(calls) }}
				c, err := stile.New(d, &stile.Options{LockOptions: stile.LockOptions{TTL: 15 * time.Second}})
				if err != nil {
					w.Fatal(err)
				}
				defer c.Close()
				lease := w.lock(c.Mutex("x"))
				if trust := time.Until(lease.Deadline()); trust > left(1) {
					w.Errorf("trusted for %v; the store gave %v", trust, left(1))
				}
				other := w.inLine(w.Context(), w.join(nil).Mutex("x"))
				for range 300 {
					pass(time.Second)
					if err := lease.Check(); err != nil {
						w.Fatalf("lost: %v", err)
					}
				}
				w.waits(other)
				if calls > 600 {
					w.Errorf("%d requests in five minutes", calls)
				}
				w.unlock(lease)
				w.unlock(w.got(other))
			})
		})
	}
}
