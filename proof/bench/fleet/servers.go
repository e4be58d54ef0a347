//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"

	_ "github.com/stilelock/stile/store/consul" // the stores that URLs can name
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "github.com/stilelock/stile/store/zookeeper"
)

// A store is a kind of server that a fleet may lock on.
type store struct {
	key   string
	sizes []int         // sizes of fleets
	parts []int         // how many clients measure the parts: few and many
	heat  time.Duration // how long a server is used before a measurement, since it becomes faster
	rest  time.Duration // after this time, clients that have locked leave the server alone
	start func(t servertest.TB) *place
	about func(p *place) string           // name and version, and how it makes its data durable
	syncs func(p *place) (float64, error) // count so far; nil if the store does not report it
	bytes func(p *place) (float64, error) // memory; nil means the processes' memory
}

// A place is the servers or the file with a fleet's locks.
type place struct {
	url     string
	servers []*servertest.Server // the first one is measured; none for a file, where the clients are measured
}

func (p *place) kill() {
	for _, s := range p.servers {
		s.Kill()
	}
}

// at returns the start function of a store of one server.
func at(start func(t servertest.TB) *servertest.Server, url string) func(t servertest.TB) *place {
	return func(t servertest.TB) *place {
		s := start(t)
		return &place{strings.ReplaceAll(url, "ADDR", s.Addr), []*servertest.Server{s}}
	}
}

var stores = []*store{
	{
		key: "redis", sizes: []int{300, 1000, 3000}, parts: []int{300, 1500},
		start: at(redisServer, "redis://ADDR"),
		about: func(p *place) string { return redisVersion(p) + ", no persistence" }, bytes: redisMemory,
	},
	{
		key: "redlock", sizes: []int{50, 150, 400}, parts: []int{50, 300},
		start: func(t servertest.TB) *place {
			p := &place{}
			var addrs []string
			for range 3 {
				s := redisServer(t)
				p.servers, addrs = append(p.servers, s), append(addrs, s.Addr)
			}
			time.Sleep(voteless) // until they vote
			p.url = "redlock://" + strings.Join(addrs, ",") + "?max_ttl=" + voteless.String()
			return p
		},
		about: func(p *place) string { return "one of three, " + redisVersion(p) + ", no persistence" }, bytes: redisMemory,
	},
	{
		key: "memcached", sizes: []int{100, 200, 400}, parts: []int{100, 400},
		start: at(func(t servertest.TB) *servertest.Server { return servertest.Memcached(t, "-c", "20000") }, "memcached://ADDR"),
		about: func(p *place) string { return "memcached " + memcachedStat(p, "version") + ", two threads" },
	},
	{
		key: "etcd", sizes: []int{50, 150, 400}, parts: []int{50, 300}, rest: 20 * time.Second,
		start: at(func(t servertest.TB) *servertest.Server {
			return servertest.Etcd(t, "--unsafe-no-fsync=false", "--heartbeat-interval=100", "--election-timeout=1000")
		}, "etcd://ADDR"),
		about: func(p *place) string { return etcdVersion(p) + ", one member, syncs to its disk" }, syncs: etcdSyncs,
	},
	{
		key: "zookeeper", sizes: []int{50, 200, 600}, parts: []int{50, 400}, heat: 30 * time.Second,
		start: at(func(t servertest.TB) *servertest.Server {
			return servertest.ZooKeeper(t, "tickTime=2000", "-Dzookeeper.forceSync=yes")
		}, "zk://ADDR?session=15s"),
		about: func(p *place) string {
			return "ZooKeeper " + zooKeeperVersion(p) + ", one member, syncs to its disk, heap of 128 MB"
		},
		syncs: zooKeeperSyncs,
	},
	{
		key: "consul", sizes: []int{30, 80, 200}, parts: []int{30, 150},
		start: at(func(t servertest.TB) *servertest.Server {
			return servertest.Consul(t, map[string]any{"limits": map[string]any{"http_max_conns_per_client": 10000}})
		}, "consul://ADDR"),
		about: func(*place) string { return "Consul 1.22, one server" },
	},
	{
		key: "postgres", sizes: []int{20, 50, 120}, parts: []int{20, 100},
		start: at(func(t servertest.TB) *servertest.Server {
			return servertest.Postgres(t, "fsync = on", "max_connections = 2000")
		}, "postgres://postgres@ADDR/postgres?pool_max_conns=2"),
		about: func(p *place) string {
			return "PostgreSQL " + pgOne(p, "SHOW server_version") + ", syncs to its disk; pool_max_conns=2"
		},
		syncs: func(p *place) (float64, error) {
			return strconv.ParseFloat(pgOne(p, "SELECT wal_sync FROM pg_stat_wal"), 64)
		},
	},
	likeMySQL("mariadb", "MariaDB"),
	likeMySQL("mysql", "MySQL"),
	{
		key: "sqlite", sizes: []int{15, 40, 80}, parts: []int{15, 60},
		start: func(t servertest.TB) *place {
			return &place{url: "sqlite://" + filepath.Join(t.TempDir(), "locks.db")}
		},
		about: func(*place) string { return "SQLite, one file; the processor time is that of the clients" },
	},
}

// likeMySQL returns the store of MySQL or MariaDB, depending on [servertest.MySQLFolder].
func likeMySQL(key, name string) *store {
	return &store{
		key: key, sizes: []int{20, 50, 120}, parts: []int{20, 100},
		start: at(func(t servertest.TB) *servertest.Server {
			s := servertest.MySQL(t, "max_connections=2000", "innodb_flush_log_at_trx_commit=1")
			if version := mysqlVersion(s); strings.HasPrefix(version, "MariaDB") != (name == "MariaDB") {
				t.Fatalf("this server is %s; %s names the folder of %s", version, servertest.MySQLFolder, name)
			}
			return s
		}, "mysql://root@ADDR/mysql?pool_max_conns=2"),
		about: func(p *place) string { return mysqlVersion(p.servers[0]) + ", syncs to its disk; pool_max_conns=2" },
		syncs: func(p *place) (float64, error) { return mysqlSyncs(p.servers[0]) },
	}
}

// voteless is how long a restarted server of Redlock has no vote.
const voteless = 16 * time.Second

// storeOf returns the store with a key.
func storeOf(key string) (*store, error) {
	var keys []string
	for _, s := range stores {
		if s.key == key {
			return s, nil
		}
		keys = append(keys, s.key)
	}
	return nil, fmt.Errorf("-store: no store is called %q; there are %s", key, strings.Join(keys, ", "))
}
