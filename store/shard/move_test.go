package shard_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/shard"
)

// The lists that clients have, one after the other, while store c replaces a.
const (
	old   = iota // a and b
	both         // a and b, and then b and c
	next         // b and c
	apart        // c and d, which clients with a and b cannot see
)

// at returns the driver of a client at a stage.
func (m memories) at(t testing.TB, stage int) driver.Driver {
	t.Helper()
	switch stage {
	case old:
		return open(t, m.stores("a", "b"), nil)
	case both:
		return open(t, m.stores("b", "c"), &shard.Options{Previous: without(m.stores("a", "b"), "b")})
	}
	if stage == next {
		return open(t, m.stores("b", "c"), nil)
	}
	return open(t, m.stores("c", "d"), nil)
}

// overlaps lets clients of some stages lock the same names in loops, and returns how often a claim held beside others that
// fill the lock.
func overlaps(t *testing.T, lock func(c *stile.Client, name string) *stile.Lock, most int64, stages ...int) int64 {
	m := memories{}
	m.stores("a", "b", "c", "d")
	var (
		names  = []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"}
		inside = make([]atomic.Int64, len(names))
		wrong  atomic.Int64
		locked atomic.Int64
		work   sync.WaitGroup
	)
	for _, stage := range stages {
		for range 3 {
			c, err := stile.New(m.at(t, stage), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			for i, name := range names {
				work.Go(func() {
					for range 30 {
						err := lock(c, name).Do(t.Context(), func(context.Context) error {
							if inside[i].Add(1) > most {
								wrong.Add(1)
							}
							for range 100 { // long enough for others to enter
								runtime.Gosched()
							}
							inside[i].Add(-1)
							locked.Add(1)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
	work.Wait()
	if want := int64(len(stages) * 3 * len(names) * 30); locked.Load() != want {
		t.Errorf("%d locks were had; want %d", locked.Load(), want)
	}
	return wrong.Load()
}

func mutex(c *stile.Client, name string) *stile.Lock  { return c.Mutex(name) }
func permit(c *stile.Client, name string) *stile.Lock { return c.Permit(name, 1, 2) }

// Clients with a common list exclude each other. Clients without a common store do not, which shows that the test can fail.
func TestNobodyHoldsANameTwice(t *testing.T) {
	t.Parallel()
	for what, stages := range map[string][]int{"before": {old, both}, "after": {both, next}, "all in the middle": {both, both}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if n := overlaps(t, mutex, 1, stages...); n != 0 {
				t.Errorf("a mutex was held by two %d times", n)
			}
			if n := overlaps(t, permit, 2, stages...); n != 0 {
				t.Errorf("two permits were held by three %d times", n)
			}
		})
	}
	t.Run("no store in common", func(t *testing.T) {
		t.Parallel()
		if overlaps(t, mutex, 1, old, apart) == 0 {
			t.Error("clients without a store in common excluded each other: the test proves nothing")
		}
	})
}
