//go:build unix

package main

import (
	"strconv"
	"strings"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/consul" // the scheme consul
)

const (
	consulRival       = "consul/api"
	consulRivalShared = "consul/api, one session"
	consulBare        = "bare KV"
)

var consulArena = &arena{
	key: "consul", page: "docs/evidence/bench/consul.md", server: "Consul server", conditions: "as the tests start it",
	start: func(t servertest.TB) *servertest.Server {
		return servertest.Consul(t, map[string]any{
			"telemetry": map[string]any{"prometheus_retention_time": "1h", "disable_hostname": true},
			"limits":    map[string]any{"http_max_conns_per_client": 10000},
		})
	},
	version: func(s *servertest.Server) string { return "Consul " + consulVersion(s) },
	count:   consulCounts,
	contenders: append(stiles("consul"),
		contender{
			consulRival, "Consul's own client as it comes: a session for each acquisition; lock-delay as short as it can be", true, nil,
			openConsulAPI,
		},
		contender{
			consulRivalShared, "the same with a session that is made beforehand for each goroutine, and not renewed", false, nil,
			openConsulShared,
		},
		contender{
			consulBare, "no library: a key that is acquired, waited for by a blocking query, and released, with a session that is made " +
				"beforehand and not renewed", false, nil, openConsulFloor,
		},
	),
	peers:       []string{"github.com/hashicorp/consul/api"},
	note:        "Consul does not count what it sends.",
	uncontended: []string{ours, consulRival, consulRivalShared},
	bare:        []string{consulBare},
	contended:   []string{ours, consulRival},
	measures:    func(b *bench) []*measure { return consensusMeasures(b) },
	targets: append(consensusTargets(consulRival, consulRival, consulBare),
		target{text: "hand-over to one waiter in another process: p50 at most 0.8×",
			measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", consulRival), most: true, bound: 0.8,
			bare: consulBare},
	),
}

func consulVersion(s *servertest.Server) string {
	version := ""
	// If the server does not report its version, the page has none.
	_ = metrics("http://"+s.Addr+"/v1/agent/metrics?format=prometheus", func(name, _ string) {
		if label, ok := strings.CutPrefix(name, `consul_version{`); ok {
			_, rest, _ := strings.Cut(label, `version="`)
			version, _, _ = strings.Cut(rest, `"`)
		}
	})
	return version
}

// consulCounts counts HTTP requests.
func consulCounts(s *servertest.Server) (counts, error) {
	c := counts{}
	err := metrics("http://"+s.Addr+"/v1/agent/metrics?format=prometheus", func(name, value string) {
		if strings.HasPrefix(name, "consul_api_http_count{") {
			n, _ := strconv.ParseFloat(value, 64)
			c["request"] += int64(n)
		}
	})
	return c, err
}
