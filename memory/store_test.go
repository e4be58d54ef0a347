package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

func brief(name string) *driver.Claim {
	return &driver.Claim{Name: name, ID: name, Weight: 1, Capacity: 1, TTL: time.Second, Wait: time.Second}
}

func TestEmptyQueuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		for i := range 10_000 {
			if _, err := d.Enter(t.Context(), brief(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if i%100 == 99 {
				<-time.After(time.Second) // all of them run out, and nobody asks for them again
			}
		}
		if n := len(d.store.queues); n > 4*minSweep {
			t.Errorf("%d queues are kept of claims that ran out, want at most %d", n, 4*minSweep)
		}
	})
}

// A ticket rises also when the queue was forgotten in between, and when many claims enter in one microsecond.
func TestTicketsOutliveTheirQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		last := int64(0)
		for i := range 100 {
			c := brief("a")
			c.ID = fmt.Sprint(i)
			p, err := d.Enter(t.Context(), c)
			if err != nil || p.Ticket <= last {
				t.Fatalf("enter %d = %+v, %v; want a ticket above %d", i, p, err, last)
			}
			last = p.Ticket
			if err := d.Leave(t.Context(), &driver.Departure{Claim: c}); err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				<-time.After(100 * time.Microsecond)
				d.store.do("a", func(*queue, int64) {})
				if len(d.store.queues) != 0 {
					t.Fatalf("the queue is kept; want it forgotten once the clock is past ticket %d", last)
				}
			}
		}
	})
}

func TestNothingIsLeftOfWaitsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		for _, id := range []string{"1", "2"} {
			c := brief("a")
			c.ID = id
			if _, err := d.Enter(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		waiter := brief("a")
		waiter.ID = "2"
		_, _ = d.Await(ctx, waiter)
		if err := d.Watch(ctx, "a", func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("watch = %v; want the context's error", err)
		}
		if q := d.store.queues["a"]; len(q.waits) != 0 || len(q.watches) != 0 {
			t.Errorf("%d waits and %d watches are left, want none", len(q.waits), len(q.watches))
		}
		d.Close()
		<-time.After(2 * time.Second)
		d.store.do("a", func(*queue, int64) {})
		if len(d.store.queues) != 0 {
			t.Errorf("%d queues are left after close, want none", len(d.store.queues))
		}
	})
}
