package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

func brief(name string) *driver.Claim {
	return &driver.Claim{Name: name, ID: name, Weight: 1, Capacity: 1, TTL: time.Second, Wait: time.Second}
}

// size returns how many names have a queue.
func (s *Store) size() (n int) {
	for i := range s.shards {
		n += s.shards[i].queues.Len()
	}
	return n
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
		if n, most := d.store.size(), 4*minSweep*len(d.store.shards); n > most {
			t.Errorf("%d queues are kept of claims that ran out, want at most %d", n, most)
		}
	})
}

// Tickets rise even if the queue was forgotten meanwhile, and if many claims enter in one microsecond.
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
			if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				<-time.After(100 * time.Microsecond)
				d.store.do("a", func(*queue, int64) {})
				if d.store.size() != 0 {
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
		d.store.do("a", func(q *queue, _ int64) {
			if !q.unheard() {
				t.Errorf("%d waits and %d watches are left, want none", len(q.waits), len(q.watches))
			}
		})
		d.Close()
		<-time.After(2 * time.Second)
		d.store.do("a", func(*queue, int64) {})
		if d.store.size() != 0 {
			t.Errorf("%d queues are left after close, want none", d.store.size())
		}
	})
}

// An uncontended lock allocates nothing, even if its queue is forgotten each time.
func TestUncontendedCallsAllocateNothing(t *testing.T) {
	d, l := New(), &driver.Release{Claim: brief("a")}
	got := testing.AllocsPerRun(1000, func() {
		if p, err := d.Enter(t.Context(), l.Claim); err != nil || !p.Holds {
			t.Fatalf("enter = %+v, %v; want a place that holds", p, err)
		}
		if err := d.Leave(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations for enter and leave, want none", got)
	}
}

// A forgotten queue that serves another name keeps nothing of the first.
func TestSpareQueuesAreNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		for i := range 100 {
			c := brief(fmt.Sprint(i))
			c.Record = c.Name
			if _, err := d.Enter(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
			changes := 0
			if err := d.Watch(ctx, c.Name, func() { changes++ }); !errors.Is(err, context.DeadlineExceeded) || changes != 1 {
				t.Errorf("watch %d = %v after %d calls; want the context's error after one", i, err, changes)
			}
			cancel()
			if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Fatal(err)
			}
			for s := range d.store.shards {
				for _, q := range d.store.shards[s].spare {
					if cap(q.Entries) > 0 && q.Entries[:1][0] != (driver.Entry{}) ||
						!reflect.DeepEqual(*q, queue{Queue: driver.Queue{Entries: []driver.Entry{}}}) {
						t.Fatalf("after %s, a spare queue is %+v", c.Name, q)
					}
				}
			}
		}
	})
}

// A claim that enters under a second name before it leaves the first is in every list, whatever the names' shards.
func TestListShowsOneMoment(t *testing.T) {
	d := New()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	enter := func(name string) *driver.Claim {
		c := brief(name)
		c.TTL = time.Hour
		if _, err := d.Enter(t.Context(), c); err != nil {
			t.Error(err)
		}
		return c
	}
	last := enter("0")
	done.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			next := enter(fmt.Sprint(i % 100))
			if err := d.Leave(t.Context(), &driver.Release{Claim: last}); err != nil {
				t.Error(err)
			}
			last = next
		}
	})
	for range 2000 {
		list, err := d.List(t.Context(), &driver.Query{})
		sorted := slices.IsSortedFunc(list, func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) })
		if err != nil || len(list) == 0 || !sorted {
			t.Fatalf("list = %+v, %v; want one or two names, in order", list, err)
		}
	}
}

// A listing of one name takes no other name's mutex, however many names there are.
func TestShowLooksAtOneName(t *testing.T) {
	d := New()
	defer d.Close()
	c := &driver.Claim{Name: "a", ID: "1", Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Minute}
	if _, err := d.Enter(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	own := maphash.String(d.store.seed, "a") % shards
	for i := range d.store.shards {
		if uint64(i) != own {
			d.store.shards[i].mu.Lock()
			defer d.store.shards[i].mu.Unlock()
		}
	}
	seen := make(chan int, 1)
	go func() {
		list, _ := d.List(t.Context(), &driver.Query{Name: "a"})
		seen <- len(list)
	}()
	select {
	case n := <-seen:
		if n != 1 {
			t.Errorf("%d names are shown; want one", n)
		}
	case <-awake.For(time.Minute):
		t.Error("a look at one name waits for another's mutex")
	}
}
