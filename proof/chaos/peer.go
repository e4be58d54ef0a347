//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A peer is a lock library that runs under the same faults as stile: another library, or stile itself for comparison.
type peer struct {
	library string        // its module
	store   string        // the servers that it locks on
	lease   time.Duration // how long the store keeps the locks of a dead process at most
	set     string        // the settings; the others are the library's defaults
	loss    string        // how a holder learns of a loss, by the library's documentation
	token   string        // the number that orders its holds; empty if there is none
	endless bool          // a wait cannot be given up
	java    bool          // the worker for Java drives it, and open is nil
	left    leftover
	open    func(addrs []string) (locker, error)
}

// A locker is a client of a library, for the waiters of one process.
type locker interface {
	// lock waits until the waiter holds the name, or ctx ends. The holding may end together with ctx.
	lock(ctx context.Context, waiter int, name string) (holding, error)
	close()
}

// A holding is a lock that is held.
type holding interface {
	// trusted asks the library, in its own way, whether the lock is still held. No answer counts as no.
	trusted() bool
	token() int64
	unlock() error
}

// The names that a peer locks. Each has one holder at a time.
var peerNames = []string{"chaos/one", "chaos/two"}

// waiters is how many goroutines of each process lock at the same time.
const waiters = 4

// peers are the possible values of -peer.
var peers = map[string]*peer{
	"stile-redis":     stileOn("redis", leftInRedis),
	"stile-redlock":   stileOn("redlock-3", leftInRedis),
	"stile-etcd":      stileOn("etcd", leftInEtcd),
	"stile-consul":    stileOn("consul", leftInConsul),
	"stile-zookeeper": stileOn("zookeeper", leftInZooKeeper),
	"redislock":       redislockPeer,
	"redsync":         redsyncOn("redis"),
	"redsync-redlock": redsyncOn("redlock-3"),
	"rueidislock":     rueidislockPeer,
	"etcd":            concurrencyPeer,
	"consul":          consulPeer,
	"curator":         curatorPeer,
	"redisson":        redissonPeer(false),
	"redisson-fenced": redissonPeer(true),
	"go-zookeeper":    goZooKeeperPeer,
}

func peerList() string { return strings.Join(slices.Sorted(maps.Keys(peers)), ", ") }

// chosenPeers returns the peers that -peer names.
func chosenPeers(text string) ([]string, error) {
	if text == "all" {
		return slices.Sorted(maps.Keys(peers)), nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		if peers[name] == nil {
			return nil, fmt.Errorf("-peer %q is neither all nor some of %s, with commas", name, peerList())
		}
	}
	return names, nil
}

// peerFlags returns an error if flags are given that do not go together.
func peerFlags(given map[string]bool, runs int) error {
	if !given["peer"] {
		if given["o"] {
			return fmt.Errorf("-o is of runs of peers: say -peer too, all or some of %s", peerList())
		}
		return nil
	}
	for name, why := range map[string]string{
		"store": "a peer has servers of its own kind",
		"pairs": "one fault is made after the other",
		"log":   "-o keeps what is measured",
	} {
		if given[name] {
			return fmt.Errorf("-%s does not go with -peer: %s", name, why)
		}
	}
	if runs < 1 || runs > 100 {
		return fmt.Errorf("-runs %d is not from 1 to 100", runs)
	}
	return nil
}
