package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// bare returns a client of package stile without a prefix, as etcd's own clients are.
func bare(t testing.TB, addr string) *stile.Client {
	t.Helper()
	d, err := New(timely(t), operator(t, addr), &Options{Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	c, err := stile.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func session(t testing.TB, c *clientv3.Client) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(c, concurrency.WithTTL(5))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// waits runs f, and fails the test if f ends before, or soon after, the name has this number of keys. The function that it
// returns waits for the end of f, which must succeed.
func waits(t *testing.T, by *clientv3.Client, folder string, keys int, f func(ctx context.Context) error) func() {
	t.Helper()
	ctx := timely(t)
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	queued(t, by, folder, keys)
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	return func() {
		t.Helper()
		if err := <-ended; err != nil {
			t.Errorf("it waited, and then: %v", err)
		}
	}
}

func TestForeignMutex(t *testing.T) {
	t.Parallel()
	for version, start := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			by, c := operator(t, s.Addr), bare(t, s.Addr)
			m := concurrency.NewMutex(session(t, by), "orders")
			lease := lock(t, c.Mutex("orders"))
			has := waits(t, by, "orders/", 2, m.Lock)
			unlock(t, lease)
			has()
			if _, err := c.Mutex("orders").TryLock(timely(t)); !errors.Is(err, stile.ErrHeld) {
				t.Errorf("try = %v; want ErrHeld", err)
			}
			reads := waits(t, by, "orders/", 2, func(ctx context.Context) error {
				l, err := c.Reader("orders").Lock(ctx)
				if err == nil {
					err = l.Unlock()
				}
				return err
			})
			q, err := c.Show(timely(t), "orders")
			if err != nil || len(q.Claims) != 2 || !q.Claims[0].Holds || q.Claims[1].Holds {
				t.Errorf("show = %+v, %v; want the mutex, which holds, and a reader", q, err)
			}
			if err := m.Unlock(timely(t)); err != nil {
				t.Fatal(err)
			}
			reads()

			e := concurrency.NewElection(session(t, by), "orders")
			lease = lock(t, c.Mutex("orders"))
			leads := waits(t, by, "orders/", 2, func(ctx context.Context) error { return e.Campaign(ctx, "me") })
			unlock(t, lease)
			leads()
			holds := waits(t, by, "orders/", 2, func(ctx context.Context) error {
				l, err := c.Mutex("orders").Lock(ctx)
				if err == nil {
					err = l.Unlock()
				}
				return err
			})
			if err := e.Resign(timely(t)); err != nil {
				t.Fatal(err)
			}
			holds()
		})
	}
}

// Any key under a name counts, also one that no lock made. stile waits for it until somebody removes it.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by, d := operator(t, s.Addr), open(t, s.Addr)
	if _, err := by.Put(timely(t), "stile/name/note", "do not touch"); err != nil {
		t.Fatal(err)
	}
	c := claimOn("name")
	p := enter(t, d, c)
	if p.Holds || p.Ahead != 1 || p.Blocker.Weight != driver.All {
		t.Errorf("enter behind a key = %+v; want to wait for it", p)
	}
	alone := claimOn("alone")
	alone.Weight, alone.Capacity = 1, 3
	_, err := d.Enter(timely(t), alone)
	if err != nil {
		t.Errorf("enter elsewhere = %v", err)
	}
	permit := claimOn("name")
	permit.Weight, permit.Capacity = 1, 3
	if _, err := d.Enter(timely(t), permit); !errors.As(err, new(*driver.CapacityError)) {
		t.Errorf("enter with a capacity = %v; want a CapacityError", err)
	}
	if s, err := d.Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil || !s.Holds {
		t.Errorf("break = %+v, %v; want the key, which held", s, err)
	}
	if p, err := d.Await(timely(t), c); err != nil || !p.Holds {
		t.Errorf("await = %+v, %v; want the lock", p, err)
	}
	leave(t, d, c)

	// If no key of a name has a lease, the name is another program's data.
	if _, err := by.Put(timely(t), "stile/config/color", "blue"); err != nil {
		t.Fatal(err)
	}
	list, err := d.List(timely(t), &driver.Query{})
	if err != nil || len(list) != 1 || list[0].Name != "alone" {
		t.Errorf("list = %+v, %v; want one name", list, err)
	}
}

// Another client puts the very key that a claim is about to put.
func TestForeignTakesTheKey(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by, d := operator(t, s.Addr), open(t, s.Addr)
	c := claimOn("name")
	k := outfitted(t, d, c)
	if _, err := by.Put(timely(t), k.key, "mine"); err != nil {
		t.Fatal(err)
	}
	if p := enter(t, d, c); p.Holds || p.Ahead != 1 {
		t.Errorf("enter = %+v; want to wait behind the key", p)
	}
	remove(t, by, k.key)
	if p := enter(t, d, c); !p.Holds {
		t.Errorf("enter = %+v; want the lock", p)
	}
	leave(t, d, c)
}
