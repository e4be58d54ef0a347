package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/redis"
)

// opener returns what opens one more client of the store at a URL.
func opener(url string) func(t testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		d, err := driver.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("redis://" + servertest.Redis(t).Addr)})
}

func TestContractInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Run(t, drivertest.Store{Open: opener("redis+cluster://" + nodes[0].Addr + "," + nodes[1].Addr)})
}

func TestModelInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Model(t, drivertest.Store{Open: opener("redis+cluster://" + nodes[0].Addr)}, 2, 500)
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener("redis://" + servertest.Redis(t).Addr)}, 1, 2000)
}

func TestContractOfSetNX(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("redis://" + servertest.Redis(t).Addr + "?layout=setnx")})
}

func TestContractOfSetNXInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Run(t, drivertest.Store{Open: opener("redis+cluster://" + nodes[0].Addr + "?layout=setnx")})
}
