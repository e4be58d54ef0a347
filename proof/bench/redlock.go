//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stilelock/stile/internal/servertest"
)

// Measures on several independent Redis servers, where a majority holds a lock.

const (
	nodes = 5

	threeServers = ", 3 servers"
	oneDown      = ", 1 of 5 down"

	// redlockTTL is short, since in stile a server has no vote that may have been restarted within the longest ttl.
	redlockTTL = 5 * time.Second
)

var redlockArena = &arena{
	key: "redlock", page: "docs/evidence/bench/redlock.md", title: "Redlock",
	server: "Redis server", servers: "five", conditions: "no persistence",
	start:  func(t servertest.TB) *servertest.Server { return servertest.Redis(t) },
	others: redlockOthers, counted: nodes - 1,
	version: redisArena.version, count: redisCounts,
	contenders: redlockContenders(),
	peers:      []string{"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9", "github.com/redis/rueidis"},
	note: "Where one is down, nobody listens at its address. " +
		fmt.Sprintf("The ttl is %v for all; servers had been up for longer before the first measure. ", redlockTTL) +
		"redsync runs over go-redis with a pool of 64 connections for each server, more than its default, which helps it here.",
	uncontended: []string{
		ours, "redsync", ours + threeServers, "redsync" + threeServers, ours + oneDown, "redsync" + oneDown,
	},
	bare: []string{bareScripts, bareScripts + threeServers, bareScripts + oneDown},
	contended: []string{
		ours, lingers, "redsync", "redsync, 5 ms",
		ours + threeServers, lingers + threeServers, "redsync" + threeServers, "redsync, 5 ms" + threeServers,
	},
	measures: func(b *bench) []*measure {
		// Without redsync if a server is down: it would take a quarter of a second for each lock.
		return []*measure{b.alone(), withoutBare(b.eight()), withoutBare(b.apart()), b.pair(
			ours, "redsync", bareScripts, ours+threeServers, "redsync"+threeServers, bareScripts+threeServers, ours+oneDown,
		), b.throng(bareRing, bareRing+threeServers), b.staffed()}
	},
	targets: redlockTargets(),
}

// withoutBare takes out the bare scripts, whose calls follow one another.
func withoutBare(m *measure) *measure {
	m.rows = slices.DeleteFunc(m.rows, func(r *row) bool { return strings.HasPrefix(r.name, bareScripts) })
	return m
}

// redlockTargets are the targets on all servers, and on three.
func redlockTargets() []target {
	list := []target{
		{text: "5 servers, uncontended lock+unlock, 1 goroutine: p50 at most 1.05× redsync's",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", "redsync"), most: true, bound: 1.05,
			bare: bareScripts, peers: []string{"redsync"}},
		{text: "3 servers, the same",
			measure: "alone", row: ours + threeServers, column: "p50", unit: "µs", against: rivals("alone", "redsync"+threeServers), most: true, bound: 1.05,
			bare: bareScripts + threeServers, peers: []string{"redsync" + threeServers}},
		{text: "3 servers, a lock and unlock: at most 12 commands of all servers, with those inside scripts",
			measure: "pair", row: ours + threeServers, column: "commands", unit: "", fixed: 12, most: true, bound: 1,
			bare: bareScripts + threeServers, peers: []string{"redsync" + threeServers}},
		{text: "5 servers, one of them down: at most 1.2× stile's own p50 with all",
			measure: "alone", row: ours + oneDown, column: "p50", unit: "µs", against: rivals("alone", ours), most: true, bound: 1.2,
			bare: bareScripts + oneDown},
	}
	for _, set := range []struct{ servers, suffix string }{{"5 servers", ""}, {"3 servers", threeServers}} {
		for _, t := range []struct {
			text, measure, row, column string
			bound                      float64
		}{
			{"one hot name, 16 processes of 4 goroutines: at least 3× the acquisitions of the better redsync", "staffed", ours, "acquired", 3},
			{"16 processes of 1 goroutine, with Linger: the same, which redsync has mostly by taking the lock again itself", "throng", lingers, "acquired", 3},
			{"the same without Linger, in hand-overs: no fewer", "throng", ours, "passed", 1},
		} {
			rows := []string{"redsync" + set.suffix, "redsync, 5 ms" + set.suffix}
			one := target{
				text: set.servers + ", " + t.text, measure: t.measure, row: t.row + set.suffix, column: t.column, unit: "/s",
				against: rivals(t.measure, rows...), bound: t.bound, peers: rows,
			}
			if t.column == "passed" {
				one.bare = bareRing + set.suffix
			}
			list = append(list, one)
		}
	}
	return list
}

// redlockOthers starts the other servers, and one more that is then stopped.
func redlockOthers(t servertest.TB) []string {
	var addrs []string
	for range nodes - 1 {
		addrs = append(addrs, servertest.Redis(t).Addr)
	}
	down := servertest.Redis(t)
	down.Stop()
	time.Sleep(redlockTTL + 2*time.Second) // a server reports its uptime in whole seconds
	return append(addrs, down.Addr)
}

// redlockContenders returns stile and redsync on all servers, on three, and with one server down.
func redlockContenders() []contender {
	var list []contender
	for _, set := range []struct {
		suffix, about string
		pick          func(addrs []string) []string
	}{
		{"", "on all five servers", func(a []string) []string { return a[:nodes] }},
		{threeServers, "on three of the servers", func(a []string) []string { return a[:3] }},
		{oneDown, "on four of the servers, and the address of one that is down", func(a []string) []string { return append(a[:nodes-1:nodes-1], a[nodes]) }},
	} {
		addrs := func(all string) []string { return set.pick(strings.Split(all, ",")) }
		open := func(linger time.Duration) func(string, time.Duration) (library, error) {
			return func(all string, _ time.Duration) (library, error) {
				return openStile("redlock://"+strings.Join(addrs(all), ",")+"?max_ttl="+redlockTTL.String(), redlockTTL, linger, 0)
			}
		}
		list = append(list,
			contender{ours + set.suffix, "defaults, " + set.about, true, nil, open(0)},
			contender{lingers + set.suffix, fmt.Sprintf("as above with Linger %v", linger), true, nil, open(linger)},
			contender{bareScripts + set.suffix, bareFloor + "; " + set.about, false, []string{"get", "set", "del"},
				func(all string, _ time.Duration) (library, error) { return openRedlockFloor(addrs(all), redlockTTL) }},
			contender{bareRing + set.suffix, aboutRing + "; " + set.about, false, nil,
				func(all string, _ time.Duration) (library, error) { return openRedlockRing(addrs(all), redlockTTL) }},
			contender{"redsync" + set.suffix, "its default delay, 50 to 250 ms at random; tries without end; " + set.about, false, nil,
				func(all string, _ time.Duration) (library, error) { return openRedsync(addrs(all), redlockTTL), nil }},
			contender{"redsync, 5 ms" + set.suffix, "as above with WithRetryDelay(5ms)", false, nil,
				func(all string, _ time.Duration) (library, error) {
					return openRedsync(addrs(all), redlockTTL, redsync.WithRetryDelay(fastDelay)), nil
				}},
		)
	}
	return list
}
