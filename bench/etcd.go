//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	_ "github.com/stilelock/stile/etcd" // the scheme etcd
	"github.com/stilelock/stile/internal/servertest"
)

var etcdArena = &arena{
	key: "etcd", page: "docs/benchmarks-etcd.md", server: "etcd server", conditions: "which does not wait for its disk",
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
	targets:  consensusTargets(etcdRival),
}

const etcdRival = "concurrency.Mutex"

func etcdVersion(s *servertest.Server) string {
	version := "etcd"
	_ = etcdMetrics(s, func(name, value string) {
		if label, ok := strings.CutPrefix(name, `etcd_server_version{server_version="`); ok {
			version = "etcd " + strings.TrimSuffix(label, `"}`)
		}
	})
	return version
}

// etcdCounts counts messages: a request is one that the server got.
func etcdCounts(s *servertest.Server) (counts, error) {
	c := counts{}
	err := etcdMetrics(s, func(name, value string) {
		key := ""
		switch {
		case strings.HasPrefix(name, "grpc_server_msg_received_total{"):
			key = "request"
		case strings.HasPrefix(name, "grpc_server_msg_sent_total{"):
			key = sentMessages
		default:
			return
		}
		n, _ := strconv.ParseFloat(value, 64)
		c[key] += int64(n)
	})
	return c, err
}

// etcdMetrics hands over each of the server's figures.
func etcdMetrics(s *servertest.Server, each func(name, value string)) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + s.Addr + "/metrics")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics: %s", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && lines.Text()[0] != '#' {
			each(lines.Text()[:i], lines.Text()[i+1:])
		}
	}
	return lines.Err()
}
