//go:build unix

package main

import (
	"strconv"
	"strings"

	_ "github.com/stilelock/stile/etcd" // the scheme etcd
	"github.com/stilelock/stile/internal/servertest"
)

var etcdArena = &arena{
	key: "etcd", page: "docs/bench/etcd.md", server: "etcd server", conditions: "which does not wait for its disk",
	start:   func(t servertest.TB) *servertest.Server { return servertest.Etcd(t) },
	version: etcdVersion,
	count:   etcdCounts,
	contenders: append(stiles("etcd"), contender{
		etcdRival, "etcd's own client; a session for each goroutine, since two goroutines of one session both hold; sessions are kept alive", true, nil,
		openConcurrency,
	}),
	peers:    []string{"go.etcd.io/etcd/client/v3"},
	note:     "A message is what the server sends on a stream or as an answer, such as an event of a watch.",
	calm:     []string{ours, etcdRival},
	crowd:    []string{ours, etcdRival},
	measures: consensusMeasures,
	targets:  consensusTargets(etcdRival, etcdRival),
}

const etcdRival = "concurrency.Mutex"

func etcdVersion(s *servertest.Server) string {
	version := "etcd"
	_ = metrics("http://"+s.Addr+"/metrics", func(name, value string) {
		if label, ok := strings.CutPrefix(name, `etcd_server_version{server_version="`); ok {
			version = "etcd " + strings.TrimSuffix(label, `"}`)
		}
	})
	return version
}

// etcdCounts counts messages: a request is one that the server got.
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
