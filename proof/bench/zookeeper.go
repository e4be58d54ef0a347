//go:build unix

package main

import (
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/zookeeper" // the scheme zk
)

const zooKeeperRival = "go-zookeeper"

var zooKeeperArena = &arena{
	key: "zookeeper", page: "docs/evidence/bench/zookeeper.md", server: "ZooKeeper server", conditions: "as the tests start it",
	start:   func(t servertest.TB) *servertest.Server { return servertest.ZooKeeper(t) },
	version: zooKeeperVersion,
	count:   zooKeeperCounts,
	contenders: append(stiles("zk"),
		contender{zooKeeperRival, "its Lock; one session for all goroutines", true, nil, openGoZooKeeper},
		contender{
			zooKeeperBare, "no lock: an ephemeral node comes and goes, by go-zookeeper, with one session for all goroutines; who waits hears of the " +
				"end of the node", false, nil, openZooKeeperBare,
		},
		contender{
			zooKeeperLine, "no lock: who comes makes an ephemeral node in sequence, watches the one with the number before, and deletes the own one, " +
				"by go-zookeeper; nobody lists who is there", false, nil, openZooKeeperLine,
		},
	),
	peers:       []string{"github.com/go-zookeeper/zk"},
	note:        "A message is an answer, or an event of a watch.",
	uncontended: []string{ours, zooKeeperRival},
	bare:        []string{zooKeeperBare},
	contended:   []string{ours, zooKeeperRival},
	measures:    func(b *bench) []*measure { return consensusMeasures(b, zooKeeperLine) },
	targets: append(consensusTargets(zooKeeperRival, zooKeeperRival, zooKeeperBare),
		target{text: "hand-over to one waiter in another process: p50 no slower",
			measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", zooKeeperRival), most: true, bound: 1,
			bare: zooKeeperBare},
		target{text: "one hot name, 8 processes × 8 goroutines, with turns off: hand-overs between processes no fewer",
			measure: "fleet", row: noTurns, column: "crossed", unit: "/s", against: rivals("fleet", zooKeeperRival), bound: 1,
			bare: zooKeeperLine},
		target{text: "a hand-over between 8 clients: at most 5 packets to the server",
			measure: "passing", row: waitingRow(ours, fewWaiting), column: "requests", unit: "", fixed: 5, most: true, bound: 1,
			bare: waitingRow(zooKeeperLine, fewWaiting), peers: []string{waitingRow(zooKeeperRival, fewWaiting)}},
	),
}

// zooKeeperStats calls each with every line of the server's own statistics, such as "Received: 12".
func zooKeeperStats(s *servertest.Server, each func(key, value string)) error {
	c, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return err
	}
	text, err := io.ReadAll(c)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ": "); ok {
			each(key, strings.TrimSpace(value))
		}
	}
	return err
}

func zooKeeperVersion(s *servertest.Server) string {
	version := "ZooKeeper"
	// If the server does not report its version, the page has none.
	_ = zooKeeperStats(s, func(key, value string) {
		if key == "Zookeeper version" {
			version, _, _ = strings.Cut("ZooKeeper "+value, "-")
		}
	})
	return version
}

// zooKeeperCounts counts packets. A request is a packet that the server received.
func zooKeeperCounts(s *servertest.Server) (counts, error) {
	c := counts{}
	err := zooKeeperStats(s, func(key, value string) {
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "Received":
			c["request"] = n
		case "Sent":
			c[sentMessages] = n
		}
	})
	return c, err
}
