package redis_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// takeAndFree locks and unlocks as fast as it can until ctx ends.
func takeAndFree(ctx context.Context, t *testing.T, m *stile.Lock) {
	for {
		lease, err := m.Lock(ctx)
		if err != nil {
			return
		}
		if err := lease.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

// A tally counts how often each client's claims came to hold, from the time when each has held once. Before its first hold a
// client makes a connection for the server's messages, and meanwhile others may hold often.
type tally struct {
	mu    sync.Mutex
	times []int
	met   int // clients that have held once
}

// add counts that client i's claim came to hold, and returns its count; 0 before each has held once.
func (n *tally) add(i int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times[i]++
	if n.met < len(n.times) {
		if n.times[i] == 1 {
			n.met++
		}
		if n.met == len(n.times) {
			clear(n.times)
		}
		return 0
	}
	return n.times[i]
}

// counted returns how often each client's claims came to hold so far.
func (n *tally) counted() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.times)
}

// In a layout without a queue, a process that locks and unlocks as fast as it can does not starve others, with one goroutine
// or with several that hand the claim on.
func TestNobodyStarvesWithoutQueue(t *testing.T) {
	t.Parallel()
	const clients, enough, least = 6, 150, 8
	_, redlock := redlockOf(t, 3, durable...)
	for what, url := range map[string]string{
		"setnx":   "redis://" + servertest.Redis(t).Addr + "?layout=setnx",
		"redlock": redlock,
	} {
		for _, goroutines := range []int{1, 3} {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			var (
				all    sync.WaitGroup
				stores []*stile.Client
				n      = tally{times: make([]int, clients)}
			)
			for i := range clients {
				c, err := stile.Open(ctx, url, &stile.Options{Observer: func(e stile.Event) {
					if e.Kind == stile.EventAcquired && !e.Local && n.add(i) == enough {
						stop()
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				stores = append(stores, c)
			}
			for _, c := range stores {
				for range goroutines {
					all.Go(func() { takeAndFree(ctx, t, c.Mutex("hot")) })
				}
			}
			all.Wait()
			got := n.counted()
			if slices.Max(got) < enough {
				t.Errorf("%s, %d goroutines: clients had the lock %v times in two minutes", what, goroutines, got)
			}
			if slices.Min(got) < least {
				t.Errorf("%s, %d goroutines: clients had the lock %v times; "+
					"want each to have it %d times while one has it %d times",
					what, goroutines, got, least, enough)
			}
			stop()
		}
	}
}
