package redis_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
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

// Where no queue says who is next, a process that takes and frees a lock as fast as it can does not keep others from it,
// with one goroutine or with several that pass it on.
func TestNobodyStarvesWithoutQueue(t *testing.T) {
	t.Parallel()
	const clients, enough, least = 6, 150, 3
	_, redlock := redlockOf(t, 3, durable...)
	for what, url := range map[string]string{
		"setnx":   "redis://" + servertest.Redis(t).Addr + "?layout=setnx",
		"redlock": redlock,
	} {
		for _, goroutines := range []int{1, 3} {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			var (
				all   sync.WaitGroup
				times [clients]atomic.Int64 // that each client's claims came to hold
			)
			var stores []*stile.Client
			for i := range clients {
				c, err := stile.Open(ctx, url, &stile.Options{Observer: func(e stile.Event) {
					if e.Kind == stile.EventAcquired && !e.Local && times[i].Add(1) == enough {
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
			var got []int64
			for i := range times {
				got = append(got, times[i].Load())
			}
			if slices.Max(got) < enough {
				t.Errorf("%s, %d goroutines: clients had the lock %v times in a minute", what, goroutines, got)
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
