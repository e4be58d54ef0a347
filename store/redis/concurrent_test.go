package redis_test

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

func TestConcurrent(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{"", "?layout=setnx"} {
		t.Run(parameters, func(t *testing.T) {
			t.Parallel()
			drivertest.Concurrent(t, store(t, parameters), 1, 8)
		})
	}
}

func TestConcurrentInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Concurrent(t, drivertest.Store{Open: opener("redis+cluster://" + nodes[0].Addr)}, 2, 8)
}

func TestConcurrentOnRedlock(t *testing.T) {
	t.Parallel()
	servers, at := redlockOf(t, 3, durable...)
	url := func(addrs ...string) string { return "redlock://" + strings.Join(addrs, ",") + "?max_ttl=1h" }
	s := drivertest.Store{Open: opener(at + "?max_ttl=1h"),
		Detour: drive.Detour(url, servers[0].Addr, servers[1].Addr, servers[2].Addr)}
	drivertest.Concurrent(t, s, 3, 3)
}

func TestConcurrentOnShards(t *testing.T) {
	t.Parallel()
	servers := []string{servertest.Redis(t).Addr, servertest.Redis(t).Addr}
	url := func(addrs ...string) string {
		return "shard://?stores=a=redis://" + addrs[0] + ";b=redis://" + addrs[1]
	}
	s := drivertest.Store{Open: opener(url(servers...)), Detour: drive.Detour(url, servers...)}
	drivertest.Concurrent(t, s, 4, 8)
}
