//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A store is a store of locks to measure.
type store struct {
	key    string
	local  bool // the store is in the memory of the measuring process
	served bool // other processes serve it
	ttl    time.Duration
	start  func(t servertest.TB, over linked) (url string)
}

// linked returns the address at which clients reach a server: its own, or the address of a link to it.
type linked func(addr string) string

const (
	defaultTTL = 15 * time.Second
	redlockTTL = 3 * time.Second // servers do not vote for this time after their start
)

var stores = []*store{
	{"memory", true, false, defaultTTL, func(servertest.TB, linked) string { return "memory://benchbefore" }},
	{"sqlite", false, false, defaultTTL, func(t servertest.TB, _ linked) string {
		return "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	}},
	{"redis", false, true, defaultTTL, func(t servertest.TB, over linked) string { return "redis://" + over(servertest.Redis(t).Addr) }},
	{"setnx", false, true, defaultTTL, func(t servertest.TB, over linked) string {
		return "redis://" + over(servertest.Redis(t).Addr) + "?layout=setnx"
	}},
	{"redlock", false, true, redlockTTL, redlock},
	{"memcached", false, true, defaultTTL, func(t servertest.TB, over linked) string {
		return "memcached://" + over(servertest.Memcached(t).Addr)
	}},
	{"postgres", false, true, defaultTTL, func(t servertest.TB, over linked) string {
		return "postgres://postgres@" + over(servertest.Postgres(t).Addr) + "/postgres"
	}},
	{"mysql", false, true, defaultTTL, func(t servertest.TB, over linked) string {
		return "mysql://root@" + over(servertest.MySQL(t).Addr) + "/mysql"
	}},
	{"etcd", false, true, defaultTTL, func(t servertest.TB, over linked) string { return "etcd://" + over(servertest.Etcd(t).Addr) }},
	{"zookeeper", false, true, defaultTTL, func(t servertest.TB, over linked) string {
		return "zk://" + over(servertest.ZooKeeper(t).Addr)
	}},
	{"consul", false, true, defaultTTL, func(t servertest.TB, over linked) string {
		limits := map[string]any{"http_max_conns_per_client": 10_000}
		return "consul://" + over(servertest.Consul(t, map[string]any{"limits": limits}).Addr)
	}},
}

// redlock starts three servers and waits until they vote.
func redlock(t servertest.TB, over linked) string {
	var addrs []string
	for range 3 {
		addrs = append(addrs, over(servertest.Redis(t).Addr))
	}
	time.Sleep(redlockTTL + 2*time.Second) // a server reports its uptime in whole seconds
	return "redlock://" + strings.Join(addrs, ",") + "?max_ttl=" + redlockTTL.String()
}

func known() string {
	var keys []string
	for _, s := range stores {
		keys = append(keys, s.key)
	}
	return strings.Join(keys, ",")
}

// storesOf returns the stores of a comma-separated list.
func storesOf(list string) (chosen []*store, err error) {
	for key := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(stores, func(s *store) bool { return s.key == key })
		if i < 0 {
			return nil, fmt.Errorf("no store is called %q; there are %s", key, known())
		}
		chosen = append(chosen, stores[i])
	}
	return chosen, nil
}
