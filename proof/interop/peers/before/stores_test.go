//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// ttl is the lease of most stores: long enough for a busy machine, and short enough to wait for.
const ttl = 5 * time.Second

// A store is a store on which the versions meet.
type store struct {
	name  string
	start func(t *testing.T) (url func(space string) string)
	ttl   time.Duration // 0 means ttl
	dies  time.Duration // how long a name stays taken after a kill of its holder, at most; 0 means two leases

	readers, permits bool // the store has them
	tokens           bool // tokens rise
	line             bool // the store shows waiters

	url func(space string) string // each scene has tables of its own, if the store has tables
}

func (s *store) lease() time.Duration {
	if s.ttl != 0 {
		return s.ttl
	}
	return ttl
}

func (s *store) gone() time.Duration {
	if s.dies != 0 {
		return s.dies + patience
	}
	return 2*s.lease() + patience
}

// durable are the arguments with which a Redis server keeps all acknowledged writes, so that Redlock asks it at once.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// at returns the URL of a store without tables.
func at(parts ...string) func(string) string {
	return func(string) string { return strings.Join(parts, "") }
}

func stores() []*store {
	redis := func(layout string) func(*testing.T) func(string) string {
		return func(t *testing.T) func(string) string { return at("redis://", servertest.Redis(t).Addr, layout) }
	}
	tair := func(layout string) func(*testing.T) func(string) string {
		return func(t *testing.T) func(string) string { return at("tair://", servertest.Tair(t).Addr, layout) }
	}
	var started sync.Once // one server for all layouts; each but the first has a prefix of its own
	var member string
	zookeeper := func(layout string) func(*testing.T) func(string) string {
		return func(t *testing.T) func(string) string {
			started.Do(func() { member = servertest.ZooKeeper(t).Addr })
			return at("zk://", member, "?session=5s", layout)
		}
	}
	memcached := func(layout string) func(*testing.T) func(string) string {
		return func(t *testing.T) func(string) string {
			return at("memcached://", servertest.Memcached(t, "-M").Addr, layout)
		}
	}
	return []*store{
		{name: "redis", start: redis(""), readers: true, permits: true, tokens: true, line: true},
		{name: "redis setnx", start: redis("?layout=setnx")},
		{name: "redlock", tokens: true, start: func(t *testing.T) func(string) string {
			var addrs []string
			for range 3 {
				addrs = append(addrs, servertest.Redis(t, durable...).Addr)
			}
			return at("redlock://", strings.Join(addrs, ","), "?max_ttl=10s")
		}},
		{name: "tair", start: tair(""), readers: true, permits: true, tokens: true, line: true},
		{name: "tair setnx", start: tair("?layout=setnx")},
		{name: "tair exset", start: tair("?layout=exset")},
		{name: "memcached", ttl: 10 * time.Second, start: memcached(""), readers: true, permits: true, tokens: true, line: true},
		{name: "memcached plain", ttl: 10 * time.Second, start: memcached("?layout=plain")},
		{name: "etcd", readers: true, permits: true, tokens: true, line: true, start: func(t *testing.T) func(string) string {
			return at("etcd://", servertest.Etcd(t).Addr)
		}},
		{name: "zookeeper", start: zookeeper(""), readers: true, permits: true, tokens: true, line: true},
		{name: "zookeeper rw", start: zookeeper("&layout=rw&prefix=rw/"), readers: true, tokens: true, line: true},
		{name: "zookeeper latch", start: zookeeper("&layout=latch&prefix=latch/"), tokens: true, line: true},
		{name: "zookeeper semaphore", start: zookeeper("&layout=semaphore&prefix=semaphore/"), permits: true, tokens: true, line: true},
		{name: "consul", ttl: 10 * time.Second, readers: true, permits: true, tokens: true, line: true, dies: 30 * time.Second,
			start: func(t *testing.T) func(string) string { return at("consul://", servertest.Consul(t, nil).Addr) }},
		{name: "postgres", readers: true, permits: true, tokens: true, line: true, start: func(t *testing.T) func(string) string {
			addr := servertest.Postgres(t, "max_connections = 400").Addr
			return func(space string) string { return "postgres://postgres@" + addr + "/postgres?schema=" + space }
		}},
		{name: "postgres session", readers: true, start: func(t *testing.T) func(string) string {
			return at("postgres://postgres@", servertest.Postgres(t, "max_connections = 400").Addr, "/postgres?mode=session")
		}},
		{name: "mysql", readers: true, permits: true, tokens: true, line: true, start: func(t *testing.T) func(string) string {
			addr := servertest.MySQL(t, "max_connections=400").Addr
			return func(space string) string { return "mysql://root@" + addr + "/mysql?prefix=" + space + "_" }
		}},
		{name: "mysql session", start: func(t *testing.T) func(string) string {
			return at("mysql://root@", servertest.MySQL(t, "max_connections=400").Addr, "/mysql?mode=session")
		}},
		{name: "sqlite", readers: true, permits: true, tokens: true, line: true, start: func(t *testing.T) func(string) string {
			dir := t.TempDir()
			return func(space string) string { return "sqlite://" + filepath.Join(dir, space+".db") }
		}},
	}
}
