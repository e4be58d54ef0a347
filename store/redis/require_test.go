package redis_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// evicts makes a server evict keys when its memory is full.
func evicts(s *servertest.Server) {
	s.Redis([]string{"CONFIG", "SET", "maxmemory", "100mb"}, []string{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"})
}

// A client that requires a fit store loses its leases when it reconnects to a server that evicts: the same server with other
// settings, or one after a failover. Servers of Redlock are asked all the time.
func TestRequiredAfterReconnect(t *testing.T) {
	t.Parallel()
	const noeviction = "maxmemory-policy noeviction"
	setting := func(params string) func(t *testing.T) drive.Worsening {
		return func(t *testing.T) drive.Worsening {
			s := servertest.Redis(t)
			return drive.Worsening{URL: "redis://" + s.Addr + params, Require: driver.TraitFit, Says: noeviction, Worsen: func() {
				evicts(s)
				s.Redis([]string{"CLIENT", "KILL", "TYPE", "normal"})
			}}
		}
	}
	tests := []struct {
		name string
		run  func(t *testing.T) drive.Worsening
	}{
		{"a setting, and the connections end", setting("")},
		{"layout setnx", setting("?layout=setnx")},
		{"a failover", func(t *testing.T) drive.Worsening {
			set := servertest.RedisSentinel(t)
			url := "redis+sentinel://" + set.Sentinel.Addr + "/" + set.Name
			return drive.Worsening{URL: url, Require: driver.TraitFit, Says: noeviction, Worsen: func() {
				evicts(set.Replica)
				set.Failover(t)
			}}
		}},
		{"a server of Redlock", func(t *testing.T) drive.Worsening {
			servers, url := redlockOf(t, 3, durable...)
			return drive.Worsening{URL: url, Require: driver.TraitFencing, Says: "may forget what they granted (appendfsync everysec)", Worsen: func() {
				servers[0].Redis([]string{"CONFIG", "SET", "appendfsync", "everysec"})
			}}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := test.run(t)
			w.TTL = 15 * time.Second
			drive.Unfit(t, &w)
		})
	}
}
