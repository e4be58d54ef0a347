package redis_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis"
)

// sentinel makes a primary and a replica that Sentinel promotes. The clients never give up a connection by themselves, so no
// call ends by a time-out.
func sentinel(parameters string) func(testing.TB) *drivertest.Failover {
	return func(t testing.TB) *drivertest.Failover {
		set := servertest.RedisSentinel(t)
		var clients []rueidis.Client
		return &drivertest.Failover{
			Open: func() driver.Driver {
				client := behind(t, set, func() {})
				clients = append(clients, client)
				var (
					d   driver.Driver
					err error
				)
				if parameters == "" {
					d, err = redis.New(client, nil)
				} else {
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
			TakesOver: func() { tookOver(t, set, clients...) },
			GoesOn:    set.Primary.Resume,
		}
	}
}
