//go:build unix

package main

import (
	"strconv"
	"strings"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/etcd" // the scheme etcd
)

var etcdArena = &arena{
	key: "etcd", page: "docs/evidence/bench/etcd.md", server: "etcd server", conditions: "which does not wait for its disk",
	start:   func(t servertest.TB) *servertest.Server { return servertest.Etcd(t) },
	version: etcdVersion,
	count:   etcdCounts,
	contenders: append(stiles("etcd"),
		contender{
			etcdRival, "etcd's own client; a session for each goroutine, since two goroutines of one session both hold; sessions are kept alive", true, nil,
			openConcurrency,
		},
		contender{etcdShared, "the same with one session for all, which is safe if each has a name of its own", true, nil, openConcurrencyShared},
		contender{
			etcdBare, "no lock: a transaction makes a key unless it is there, under one lease for all, and a request deletes it, by etcd's own client; " +
				"who waits hears of the end of the key", true, nil, openEtcdBare,
		},
		contender{etcdKeeps, "the same with a lease for each key; etcd's own client keeps leases alive as it does for a session", true, nil, openEtcdKeeps},
	),
	peers:       []string{"go.etcd.io/etcd/client/v3"},
	note:        "A message is what the server sends on a stream or as an answer, such as an event of a watch.",
	uncontended: []string{ours, etcdRival},
	bare:        []string{etcdBare},
	contended:   []string{ours, etcdRival},
	measures: func(b *bench) []*measure {
		return append(consensusMeasures(b), b.holding(ours, etcdRival, etcdShared, etcdKeeps, etcdBare))
	},
	targets: append(consensusTargets(etcdRival, etcdRival, etcdBare),
		target{text: "1,000 held leases, a ttl of 5 s: at most 5 requests/s",
			measure: "holding", row: ours, column: "requests", unit: "/s", fixed: 5, most: true, bound: 1, bare: etcdKeeps},
		target{text: "the same: at most one goroutine for 100 leases",
			measure: "holding", row: ours, column: "goroutines", unit: "", fixed: 0.01, most: true, bound: 1},
		target{text: "the same: at most 2.5 KiB of heap a lease",
			measure: "holding", row: ours, column: "heap", unit: "B", fixed: 2560, most: true, bound: 1},
	),
}

const (
	etcdRival  = "concurrency.Mutex"
	etcdShared = "concurrency.Mutex, one session"
)

func etcdVersion(s *servertest.Server) string {
	version := "etcd"
	// If the server does not report its version, the page has none.
	_ = metrics("http://"+s.Addr+"/metrics", func(name, value string) {
		if label, ok := strings.CutPrefix(name, `etcd_server_version{server_version="`); ok {
			version = "etcd " + strings.TrimSuffix(label, `"}`)
		}
	})
	return version
}

// etcdCounts counts messages. A request is a message that the server received.
func etcdCounts(s *servertest.Server) (counts, error) {
	c := counts{}
	err := metrics("http://"+s.Addr+"/metrics", func(name, value string) {
		n, _ := strconv.ParseFloat(value, 64)
		switch {
		case strings.HasPrefix(name, "grpc_server_msg_received_total{"):
			c["request"] += int64(n)
		case strings.HasPrefix(name, "grpc_server_msg_sent_total{"):
			c[sentMessages] += int64(n)
		}
	})
	return c, err
}
