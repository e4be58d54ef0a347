package redis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// moves returns the mishap in which two servers exchange their roles behind an address, whose open connections stay. The
// replica has all claims.
func moves(parameters string) func(testing.TB) *drivertest.Mishap {
	return func(t testing.TB) *drivertest.Mishap {
		primary := servertest.Redis(t, "--repl-diskless-sync-delay", "0")
		replica := servertest.Redis(t, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", strconv.Itoa(primary.Ports[0]))
		address := servertest.NewProxy(t, primary.Addr)
		return &drivertest.Mishap{
			Open: func() (driver.Driver, error) { return driver.Open(drive.Timely(t), "redis://"+address.Addr+parameters) },
			Happens: func() {
				servertest.Until(t, "the replica has all", func() bool {
					return replica.RedisInfo("master_link_status") == "up" &&
						replica.RedisInfo("slave_repl_offset") == primary.RedisInfo("master_repl_offset")
				})
				replica.Redis([]string{"REPLICAOF", "NO", "ONE"})
				primary.Redis([]string{"REPLICAOF", "127.0.0.1", strconv.Itoa(replica.Ports[0])})
				address.Retarget(replica.Addr)
			},
			Keeps: true, Back: 10 * time.Second,
		}
	}
}
