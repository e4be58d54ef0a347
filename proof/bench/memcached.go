//go:build unix

package main

import (
	"strconv"
	"strings"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/memcached" // the scheme memcached
)

// Measures on memcached, for which no known library does more than add and delete.

const (
	plain      = "stile, layout plain"
	naive      = "add/delete"
	naiveQuick = "add/delete, 5 ms"
)

var memcachedArena = &arena{
	key: "memcached", page: "docs/evidence/bench/memcached.md", server: "memcached server", conditions: "with 16 MB and 2 threads",
	start:   func(t servertest.TB) *servertest.Server { return servertest.Memcached(t) },
	version: memcachedVersion,
	count:   memcachedCounts,
	contenders: append(stiles("memcached"),
		contender{plain, "layout=plain, one value that is added and deleted by compare; otherwise defaults", true, nil, openMemcachedPlain},
		contender{
			naive, "what programs do: gomemcache's Add, again after 100 ms while the key is there, and Delete, whosever it is then", false, nil,
			openNaive(slowDelay),
		},
		contender{naiveQuick, "the same, again after 5 ms", false, nil, openNaive(fastDelay)},
	),
	peers:       []string{"github.com/bradfitz/gomemcache"},
	note:        "gomemcache keeps up to 64 idle connections here, more than its default, which helps it.",
	uncontended: []string{ours, plain, naive},
	contended:   []string{ours, plain, naive, naiveQuick},
	measures: func(b *bench) []*measure {
		return []*measure{b.alone(), b.eight(), b.apart(), b.pair(b.arena.uncontended...), b.hot(), b.fleet(), b.handOver(), b.waiting()}
	},
	targets: []target{
		{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.2× that of add and delete, which compare nothing",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", naive), most: true, bound: 1.2, bare: naive},
		{text: "the same in layout plain",
			measure: "alone", row: plain, column: "p50", unit: "µs", against: rivals("alone", naive), most: true, bound: 1.2, bare: naive},
		{text: "hand-over to one waiter in another process: p50 under 15 ms",
			measure: "handover", row: ours, column: "p50", unit: "µs", fixed: 15000, most: true, bound: 1, strict: true},
		{text: "100 waiters of one process on a held name: at most 20 commands/s",
			measure: "waiting", row: ours, column: "commands", unit: "/s", fixed: 20, most: true, bound: 1},
	},
}

func memcachedVersion(s *servertest.Server) string {
	line, _, _ := strings.Cut(s.Memcached("version\r\n"), "\r\n")
	return "memcached " + strings.TrimPrefix(line, "VERSION ")
}

// memcachedCounts counts commands on keys. Commands that add, replace and compare count as sets.
func memcachedCounts(s *servertest.Server) (counts, error) {
	c := counts{}
	for line := range strings.Lines(s.Memcached("stats\r\n")) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "STAT "), " ")
		switch name {
		case "cmd_get", "cmd_set", "cmd_touch", "delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, err
			}
			c[name] = n
		}
	}
	return c, nil
}
