//go:build unix

package main

import (
	"fmt"
	"slices"

	"github.com/stilelock/stile/internal/servertest"
)

// Measures on Redis in the layout setnx, whose keys are the keys of the other libraries.

var setNXContended = []string{ours, "redsync", "redsync, 5 ms", "redislock", "redislock, 5 ms", "rueidislock"}

var setNXArena = &arena{
	key: "setnx", page: "docs/evidence/bench/setnx.md", title: "Redis, layout setnx", server: "Redis server", conditions: "no persistence",
	start:   func(t servertest.TB) *servertest.Server { return servertest.Redis(t) },
	version: redisArena.version, count: redisCounts,
	contenders: slices.Concat(stilesAt(setNXAddress, []string{"get", "set", "del", "time", "pttl", "pexpire"}), redisRivals, redisFloors),
	peers:      redisArena.peers,
	note: "stile keeps each lock in the layout `setnx`, one string under the name, as redsync and redislock do, so that no queue says who " +
		"is next. " + redisArena.note,
	uncontended: []string{ours, "redislock", "redsync", "rueidislock"},
	bare:        []string{bareSetNX, bareScripts},
	contended:   setNXContended,
	measures: func(b *bench) []*measure {
		return []*measure{b.alone(), b.eight(), b.apart(), b.lingering(), b.hot(), b.fleet(), b.pingedHandOver()}
	},
	targets: []target{
		{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.05× redislock's",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", "redislock"), most: true, bound: 1.05, bare: bareScripts},
		{text: "64 goroutines on 64 names: at least 0.95× redislock's throughput",
			measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", "redislock"), bound: 0.95, bare: bareSetNX},
	},
}

func setNXAddress(addr string) string { return fmt.Sprintf("redis://%s?layout=setnx", addr) }
