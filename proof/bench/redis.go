//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/rueidis"
	"github.com/stilelock/stile/internal/histogram"
	"github.com/stilelock/stile/internal/servertest"
)

// Measures on Redis.

const pings = "PING"

var redisContended = []string{ours, "redsync", "redsync, 5 ms", "redislock", "redislock, 5 ms", "rueidislock"}

var redisArena = &arena{
	key: "redis", page: "docs/evidence/bench/redis.md", server: "Redis server", conditions: "no persistence",
	start:      func(t servertest.TB) *servertest.Server { return servertest.Redis(t) },
	version:    func(s *servertest.Server) string { return "Redis " + s.RedisInfo("redis_version") },
	count:      redisCounts,
	contenders: redisContenders,
	peers: []string{
		"github.com/go-redsync/redsync/v4", "github.com/bsm/redislock", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	},
	note:        fmt.Sprintf("redsync and redislock run over go-redis with a pool of %d connections, more than its default, which helps them here.", contentionSize),
	uncontended: []string{ours, "redislock", "redsync", "rueidislock", bareSetNX, bareScripts},
	contended:   redisContended,
	measures: func(b *bench) []*measure {
		return []*measure{
			b.alone(), b.eight(), b.apart(), b.pair(b.arena.uncontended...), b.lingering(), b.hot(), b.fleet(bareList, barePublish), b.pingedHandOver(bareList, barePublish), b.waiting(),
			b.holding(ours, "redsync", "redislock", "rueidislock", bareExpire), b.queueing(),
			b.clients(ours, "redsync", "redislock", "rueidislock", bareScripts), b.line(), b.herd(), b.holdingMany(),
		}
	},
	targets: slices.Concat(redisTargets, redisManyTargets()),
}

var redisContenders = slices.Concat(stiles("redis", "get", "mget", "getrange", "set", "setrange", "del", "pexpire", "time", "publish"), redisRivals, redisFloors)

// redisRivals are the other libraries on one server.
var redisRivals = []contender{
	{
		"redsync", "one pool (go-redis); its default delay, 50 to 250 ms at random; tries without end", false,
		[]string{"get", "del", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) { return openRedsync([]string{addr}, ttl), nil },
	},
	{
		"redsync, 5 ms", "as above with WithRetryDelay(5ms)", false,
		[]string{"get", "del", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) {
			return openRedsync([]string{addr}, ttl, redsync.WithRetryDelay(fastDelay)), nil
		},
	},
	{
		"redislock", "over go-redis; it has no default for waiting: LinearBackoff(100ms)", false,
		[]string{"get", "set", "del", "getrange", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) { return openRedislock(addr, ttl, slowDelay), nil },
	},
	{
		"redislock, 5 ms", "as above with LinearBackoff(5ms)", false,
		[]string{"get", "set", "del", "getrange", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) { return openRedislock(addr, ttl, fastDelay), nil },
	},
	{
		"rueidislock", "KeyMajority 1 and NoLoopTracking, as its documentation says for one server; it waits for invalidations and has no delay", true,
		[]string{"get", "set", "del", "pexpireat"},
		openRueidislock,
	},
}

var redisTargets = []target{
	{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.05× redislock's",
		measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", "redislock"), most: true, bound: 1.05, bare: bareScripts},
	{text: "the same: p50 at most 1.05× redsync's",
		measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", "redsync"), most: true, bound: 1.05, bare: bareScripts},
	{text: "8 goroutines on 8 names: at least 0.95× redislock's throughput",
		measure: "names-8", row: ours, column: "rate", unit: "/s", against: rivals("names-8", "redislock"), bound: 0.95, bare: bareSetNX},
	{text: "64 goroutines on 64 names: at least 0.95× redislock's throughput",
		measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", "redislock"), bound: 0.95, bare: bareSetNX},
	{text: "the same: at least 0.95× rueidislock's",
		measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", "rueidislock"), bound: 0.95, bare: bareSetNX},
	{text: "one hot name, 64 goroutines of one process: at least 50× the best of them, in hand-overs",
		measure: "hot", row: ours, column: "passed", unit: "/s", against: rivals("hot", redisContended[1:]...), bound: 50},
	{text: "the same, in acquisitions, which peers have mostly by the same goroutine's taking the lock again",
		measure: "hot", row: ours, column: "acquired", unit: "/s", against: rivals("hot", redisContended[1:]...), bound: 50},
	{text: "Linger, 1 goroutine: at least 50× redislock's lock+unlock rate",
		measure: "linger", row: lingers, column: "rate", unit: "/s", against: rivals("linger", "redislock"), bound: 50},
	{text: "a lock and unlock: at most 60 allocations",
		measure: "pair", row: ours, column: "allocations", unit: "", fixed: 60, most: true, bound: 1, bare: bareScripts},
	{text: "one hot name, 8 processes × 8 goroutines: at least 3× the best of them in hand-overs",
		measure: "fleet", row: ours, column: "passed", unit: "/s", against: rivals("fleet", redisContended[1:]...), bound: 3},
	{text: "the same: p99 wait at most a tenth of redsync's, the better of the two",
		measure: "fleet", row: ours, column: "p99", unit: "ms", against: rivals("fleet", "redsync", "redsync, 5 ms"), most: true, bound: 0.1},
	{text: "the same with turns off: at least 0.8× what a list passes on between processes, by BLPOP and RPUSH",
		measure: "fleet", row: noTurns, column: "crossed", unit: "/s", against: rivals("fleet", bareList), bound: 0.8, bare: barePublish},
	{text: "hand-over to one waiter in another process: p50 at most 1.3× that of BLPOP and RPUSH",
		measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", bareList), most: true, bound: 1.3, bare: barePublish},
	{text: "the same: p50 under 3 round trips",
		measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", pings), most: true, bound: 3, strict: true, bare: barePublish},
	{text: "100 waiters of one process on a held name: under 2 commands/s, as clients send them",
		measure: "waiting", row: ours, column: "requests", unit: "/s", fixed: 2, most: true, bound: 1, strict: true},
	{text: "the same, with those inside scripts",
		measure: "waiting", row: ours, column: "commands", unit: "/s", fixed: 2, most: true, bound: 1, strict: true},
	{text: "1,000 held leases, a ttl of 5 s: at most 300 commands/s, with those inside scripts",
		measure: "holding", row: ours, column: "commands", unit: "/s", fixed: 300, most: true, bound: 1, bare: bareExpire},
	{text: "the same: no goroutine per lease (fewer than one for 100)",
		measure: "holding", row: ours, column: "goroutines", unit: "", fixed: 0.01, most: true, bound: 1, strict: true},
	{text: "memory: at most 1 KiB a held lease",
		measure: "holding", row: ours, column: "heap", unit: "B", fixed: 1024, most: true, bound: 1},
	{text: "memory: under 1 KiB a local waiter, the goroutine's own included",
		measure: "queueing", row: ours, column: "heap", unit: "B", fixed: 1024, most: true, bound: 1, strict: true, bare: bare},
}

// redisManyTargets are targets for figures that grow with names, clients and waiters.
func redisManyTargets() []target {
	list := []target{
		{text: "memory: at most 200 KiB a client",
			measure: "clients", row: ours, column: "heap", unit: "B", fixed: 200 << 10, most: true, bound: 1, bare: bareScripts},
	}
	for _, n := range lineSizes {
		most := 60.0
		if n > herdSize {
			most = 110
		}
		list = append(list, target{
			text:    fmt.Sprintf("a queue of %s: at most %.0f µs of the server to enter and leave", grouped(float64(n), 0), most),
			measure: "line", row: lineRow(n), column: "change", unit: "µs", fixed: most, most: true, bound: 1,
			bare: bareLineRow(n), peers: []string{},
		})
	}
	return append(list,
		target{text: "1,000 clients that come at once: all wait within 50 ms",
			measure: "herd", row: ours, column: "in", unit: "ms", fixed: 50, most: true, bound: 1, bare: bareScripts},
		target{text: "1,000 clients that wait: under 1 % of a core of the server",
			measure: "herd", row: ours, column: "idle", unit: "%", fixed: 1, most: true, bound: 1, strict: true, bare: bareScripts},
		target{text: "100,000 held names: an unlock beside their renewals takes at most 2 ms, p99",
			measure: "many", row: ours, column: "p99", unit: "ms", fixed: 2, most: true, bound: 1, bare: bareExpire},
		target{text: "the same: at most 20 ms, the longest",
			measure: "many", row: ours, column: "max", unit: "ms", fixed: 20, most: true, bound: 1, bare: bareExpire},
		target{text: "60,000 of them are released on a busy machine within 3 s",
			measure: "many", row: ours + onBusy, column: "release", unit: "s", fixed: 3, most: true, bound: 1},
	)
}

// pingedHandOver is handOver together with round trips.
func (b *bench) pingedHandOver(more ...string) *measure {
	m := b.handOver(more...)
	m.about += " " + pings + " is one round trip by rueidis, stile's client library."
	m.rows = append(m.rows, &row{name: pings, run: b.ping})
	return m
}

// ping measures round trips, one after the other.
func (b *bench) ping() (sample, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{b.addr}, DisableCache: true, ForceSingleClient: true,
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var times histogram.Histogram
	ctx := context.Background()
	for end := time.Now().Add(b.window); time.Now().Before(end); {
		begin := time.Now()
		if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			return nil, err
		}
		times.Add(time.Since(begin))
	}
	return sampleOf(&times), nil
}
