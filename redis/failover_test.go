package redis_test

import (
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/redis"
)

// sentinel makes a primary and a replica that Sentinel promotes. The clients of layout setnx never give a connection up by
// themselves: what ends does not end by a time-out. The other layout is told on a subscription, which the library ends with
// the connection of a primary that was replaced once that is given up.
func sentinel(parameters string) func(testing.TB) *drivertest.Failover {
	return func(t testing.TB) *drivertest.Failover {
		set := servertest.RedisSentinel(t)
		var clients []rueidis.Client
		silence := 2 * time.Second
		if parameters != "" {
			silence = time.Hour
		}
		return &drivertest.Failover{
			Open: func() driver.Driver {
				client, err := rueidis.NewClient(rueidis.ClientOption{
					InitAddress: []string{set.Sentinel.Addr}, Sentinel: rueidis.SentinelOption{MasterSet: set.Name},
					DisableCache: true, DisableRetry: true,
					Dialer: net.Dialer{Timeout: time.Minute, KeepAlive: silence}, ConnWriteTimeout: silence,
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.Close)
				clients = append(clients, client)
				var d driver.Driver
				if d, err = redis.New(client, nil); parameters != "" {
					d, err = redis.NewSetNX(client, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				return d
			},
			StandsStill: func() {
				set.Settle(t)
				set.Primary.Pause()
				t.Cleanup(set.Primary.Resume)
			},
			TakesOver: func() {
				set.TookOver(t)
				for _, client := range clients {
					servertest.Until(t, "a client has heard of the new primary", func() bool {
						_, knows := client.Nodes()[set.Replica.Addr]
						return knows
					})
				}
			},
			GoesOn: set.Primary.Resume,
		}
	}
}
