package redis_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis"
)

// store is a new server of Redis.
func store(t testing.TB, parameters string) drivertest.Store {
	server := servertest.Redis(t)
	addr := server.Addr
	url := func(addrs ...string) string { return "redis://" + addrs[0] + parameters }
	s := drivertest.Store{
		Open: opener(url(addr)), Detour: drive.Detour(url, addr), Fresh: fresh(url(addr)),
		Mishaps:  drive.Mishaps(func(t testing.TB) *servertest.Server { return servertest.Redis(t, durable...) }, url, servertest.RedisData, false),
		Failover: sentinel(parameters),
		Lacking:  lackingOne(parameters),
	}
	s.Mishaps["its address leads to the replica, which is the primary now"] = moves(parameters)
	if evenIfFull(server) {
		s.Full = full(parameters)
	}
	if parameters == "" {
		s.Edge = drive.Edges(func(t testing.TB, name string) (string, func(int64)) {
			server := servertest.Redis(t)
			return url(server.Addr), func(ticket int64) {
				server.Redis([]string{"EVAL", "return redis.call('SET', KEYS[1], struct.pack('>c6I4d', 'stile1', 0, ARGV[1]))", "1", redis.DefaultPrefix + "{" + driver.EncodeName(name) + "}", fmt.Sprint(ticket)})
			}
		})
	}
	if strings.Contains(parameters, "setnx") { // other programs set the key if it does not exist
		s.Foreign = map[string]func(testing.TB, string) *drivertest.Foreign{
			"SET NX": func(_ testing.TB, name string) *drivertest.Foreign { return setNX(server, name) },
		}
		s.Taken = func(_ testing.TB, name string) bool { return server.Redis([]string{"EXISTS", name}) == int64(1) }
	}
	return s
}

// setNX locks by SET NX, as many libraries do.
func setNX(s *servertest.Server, name string) *drivertest.Foreign {
	held := false
	return &drivertest.Foreign{
		Holds: func() bool {
			held = held || s.Redis([]string{"SET", name, "theirs", "NX", "PX", "60000"}) == "OK"
			return held
		},
		Leave: func() { s.Redis([]string{"DEL", name}) },
	}
}

// evenIfFull reports whether a server lets a script run although the memory is full, as Redis does from version 7 on.
func evenIfFull(s *servertest.Server) bool {
	return !strings.HasPrefix(s.RedisInfo("redis_version"), "6.")
}

// full returns a function that makes a server whose memory can be full.
func full(parameters string) func(testing.TB) *drivertest.Full {
	return func(t testing.TB) *drivertest.Full {
		s := servertest.Redis(t)
		open := opener("redis://" + s.Addr + parameters)
		return &drivertest.Full{
			Open: func() driver.Driver { return open(t) },
			Fill: func() { s.Redis([]string{"CONFIG", "SET", "maxmemory", "1"}) },
			Says: "no memory left for a new claim", Renews: true, Turns: true,
		}
	}
}

// fresh returns a function that makes stores on a server, each under a prefix of its own.
func fresh(url string) func(testing.TB) func() driver.Driver {
	return func(t testing.TB) func() driver.Driver {
		more := "?prefix="
		if strings.Contains(url, "?") {
			more = "&prefix="
		}
		open := opener(url + more + rand.Text() + "/")
		return func() driver.Driver { return open(t) }
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := store(t, "")
	drive.Lacks(t, s.Open)
	drivertest.Run(t, s)
}

func TestContractInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Run(t, drivertest.Store{
		Open: opener("redis+cluster://" + nodes[0].Addr + "," + nodes[1].Addr), Fresh: fresh("redis+cluster://" + nodes[0].Addr),
		Several: several(""), Lacking: lackingInCluster(""),
	})
}

// several returns a function that makes a cluster whose servers may each be out of reach of clients.
func several(parameters string) func(testing.TB) *drivertest.Several {
	return func(t testing.TB) *drivertest.Several {
		nodes, ways := servertest.RedisClusterBehind(t)
		open := opener("redis+cluster://" + ways[0].Addr + "," + ways[1].Addr + parameters)
		return &drivertest.Several{
			Open: func() driver.Driver { return open(t) }, Servers: len(nodes),
			Down: func(i int) { ways[i].Cut() }, Up: func(i int) { ways[i].Mend() },
		}
	}
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
	s := store(t, "?layout=setnx")
	drive.Lacks(t, s.Open, driver.TraitOrder, driver.TraitReaders, driver.TraitPermits, driver.TraitFencing)
	drivertest.Run(t, s)
}

func TestContractOfSetNXInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Run(t, drivertest.Store{
		Open:    opener("redis+cluster://" + nodes[0].Addr + "?layout=setnx"),
		Several: several("?layout=setnx"), Lacking: lackingInCluster("?layout=setnx"),
	})
}

// A server without HELLO speaks only the older protocol, in which it reports no changes. Drivers then poll.
func TestContractWithoutPushes(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--rename-command", "HELLO", "")
	for _, layout := range []string{"queue", "setnx"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, drivertest.Store{Open: opener("redis://" + s.Addr + "?layout=" + layout + "&prefix=" + layout + "/")})
		})
	}
}
