package drivertest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

func TestPaced(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name              string
		lease, late, want time.Duration
	}{
		{"nothing is late", 600 * ms, 0, 600 * ms},
		{"as late as there is room for", 600 * ms, 30 * ms, 600 * ms},
		{"later", 600 * ms, 100 * ms, 2000 * ms},
		{"by parts of a millisecond", 300 * ms, 42_083 * time.Microsecond, 800 * ms},
		{"much later", 600 * ms, 2000 * ms, 4800 * ms},
		{"much later, of a lease of a second", 1000 * ms, 2000 * ms, 5000 * ms},
		{"much later, of a long lease", 10_000 * ms, 2000 * ms, 10_000 * ms},
	} {
		if got := paced(test.lease, test.late); got != test.want {
			t.Errorf("%s: the lease is %v; want %v", test.name, got, test.want)
		}
	}
}

// slowStore returns a store where the n-th Enter takes a while.
func slowStore(takes func(n int64) time.Duration) Store {
	var (
		store = memory.NewStore()
		n     atomic.Int64
	)
	return Store{Open: func(testing.TB) driver.Driver {
		return &buggy{Driver: store.Driver(), enter: func(ctx context.Context, d *memory.Driver, c *driver.Claim) (driver.Place, error) {
			<-time.After(takes(n.Add(1)))
			return d.Enter(ctx, c)
		}}
	}}
}

// TestSlowIsNotBlamed checks that no case fails because of a slow store: its leases are longer, or the case tries until the
// store is faster.
func TestSlowIsNotBlamed(t *testing.T) {
	for when, takes := range map[string]func(n int64) time.Duration{
		"always": func(int64) time.Duration { return 700 * time.Millisecond },
		"at each fourth call, at first": func(n int64) time.Duration {
			if n%4 == 0 && n < 12 {
				return 6 * time.Second
			}
			return 0
		},
	} {
		for _, name := range []string{"AwaitExpiry", "RetryAfterDeadNext"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { finds(t, name, slowStore(takes), false) })
			})
		}
	}
}

// TestNotInTime checks that the failure names a step that never succeeded.
func TestNotInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := found(t, "AwaitExpiry", slowStore(func(int64) time.Duration { return 6 * time.Second }))
		want := "in 5m0s it did not happen that a claim waits before the lease of the one that holds is over"
		if len(failures) != 1 || !strings.Contains(failures[0], want) {
			t.Errorf("the case fails with %q; want %q", failures, want)
		}
	})
}
