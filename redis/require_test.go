package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// evicts has a server evict keys when its memory is full.
func evicts(s *servertest.Server) {
	s.Redis([]string{"CONFIG", "SET", "maxmemory", "100mb"}, []string{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"})
}

// A client that requires a store that is fit loses its leases when it is connected anew to a server that evicts: the same one
// with other settings, or the one that a failover led to. A client that requires nothing goes on.
func TestRequiredAfterReconnect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  func(t *testing.T) (url string, worsen func())
	}{
		{"a setting, and the connections end", func(t *testing.T) (string, func()) {
			s := servertest.Redis(t)
			return "redis://" + s.Addr, func() {
				evicts(s)
				s.Redis([]string{"CLIENT", "KILL", "TYPE", "normal"})
			}
		}},
		{"a failover", func(t *testing.T) (string, func()) {
			set := servertest.RedisSentinel(t)
			return "redis+sentinel://" + set.Sentinel.Addr + "/" + set.Name, func() {
				evicts(set.Replica)
				set.Settle(t)
				set.Sentinel.Redis([]string{"SENTINEL", "FAILOVER", set.Name})
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, worsen := test.run(t)
			const ttl = 6 * time.Second
			hold := func(name string, require ...driver.Trait) (*stile.Client, *stile.Lease) {
				c, err := stile.Open(timely(t), url, &stile.Options{Require: require, LockOptions: stile.LockOptions{TTL: ttl}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				lease, err := c.Mutex(name).Lock(timely(t))
				if err != nil {
					t.Fatal(err)
				}
				return c, lease
			}
			strict, lease := hold("strict", driver.TraitFit)
			_, easy := hold("easy")
			worsen()
			select {
			case <-lease.Context().Done():
			case <-time.After(3 * ttl):
				t.Fatal("the lease is not lost")
			}
			err := context.Cause(lease.Context())
			lost, ok := errors.AsType[*stile.LostError](err)
			if !ok || lost.Reason != stile.ReasonUnfit || !strings.Contains(err.Error(), "maxmemory-policy noeviction") {
				t.Errorf("the lease ended as %v; want the reason that the store is unfit, and what to set", err)
			}
			if _, err := strict.Mutex("next").TryLock(timely(t)); !errors.Is(err, stile.ErrUnsupported) {
				t.Errorf("try = %v; want ErrUnsupported", err)
			}
			if err := easy.Check(); err != nil {
				t.Errorf("the lease of a client that requires nothing = %v; want it to go on", err)
			}
		})
	}
}
