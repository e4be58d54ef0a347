//go:build unix

package main

import (
	"strings"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/memcached" // the scheme memcached
)

// What is measured on memcached, for which no library is known that does more than add and delete.

const (
	plain      = "stile, layout plain"
	naive      = "add/delete"
	naiveQuick = "add/delete, 5 ms"
)

var memcachedArena = &arena{
	key: "memcached", page: "docs/bench/memcached.md", server: "memcached server", conditions: "with 16 MB and 2 threads",
	start:   func(t servertest.TB) *servertest.Server { return servertest.Memcached(t) },
	version: memcachedVersion,
	contenders: append(stiles("memcached"),
		contender{plain, "layout=plain, one value that is added and deleted by compare; otherwise defaults", true, nil, openMemcachedPlain},
		contender{
			naive, "what programs do: gomemcache's Add, again after 100 ms while the key is there, and Delete, whosever it is then", false, nil,
			openNaive(slowDelay),
		},
		contender{naiveQuick, "the same, again after 5 ms", false, nil, openNaive(fastDelay)},
	),
	peers:    []string{"github.com/bradfitz/gomemcache"},
	note:     "gomemcache keeps up to 64 idle connections here, more than its default, which helps it.",
	calm:     []string{ours, plain, naive},
	crowd:    []string{ours, plain, naive, naiveQuick},
	measures: func(b *bench) []*measure { return []*measure{b.alone(), b.apart(), b.hot(), b.fleet(), b.handOver()} },
	targets: []target{
		{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.5× that of add and delete, which compare nothing",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", naive), most: true, bound: 1.5},
		{text: "the same in layout plain",
			measure: "alone", row: plain, column: "p50", unit: "µs", against: rivals("alone", naive), most: true, bound: 1.5},
		{text: "hand-over to one waiter in another process: p50 under 15 ms",
			measure: "handover", row: ours, column: "p50", unit: "µs", fixed: 15000, most: true, bound: 1, strict: true},
	},
}

func memcachedVersion(s *servertest.Server) string {
	line, _, _ := strings.Cut(s.Memcached("version\r\n"), "\r\n")
	return "memcached " + strings.TrimPrefix(line, "VERSION ")
}
