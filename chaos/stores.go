//go:build unix

package main

import (
	"path/filepath"
	"strings"

	_ "github.com/stilelock/stile/consul"
	_ "github.com/stilelock/stile/etcd"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/mysql"
	_ "github.com/stilelock/stile/postgres"
	_ "github.com/stilelock/stile/redis"
	_ "github.com/stilelock/stile/sqlite"
	_ "github.com/stilelock/stile/zookeeper"
)

// A store is what is tried: its servers, each behind a proxy of its own, and where clients find it.
type store struct {
	url     string
	servers []*servertest.Server
	proxies []*servertest.Proxy
}

// behind puts a proxy before each server, and returns the addresses of the proxies.
func (s *store) behind(t servertest.TB, servers []*servertest.Server) string {
	s.servers = servers
	var addrs []string
	for _, server := range servers {
		p := servertest.NewProxy(t, server.Addr)
		s.proxies = append(s.proxies, p)
		addrs = append(addrs, p.Addr)
	}
	return strings.Join(addrs, ",")
}

// stores start what runs are named after.
var stores = map[string]func(t servertest.TB) *store{
	"sqlite": func(t servertest.TB) *store {
		return &store{url: "sqlite://" + filepath.Join(t.TempDir(), "locks.db")}
	},
	"redis": func(t servertest.TB) *store {
		s := &store{}
		server := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
		s.url = "redis://" + s.behind(t, []*servertest.Server{server})
		return s
	},
	"etcd": func(t servertest.TB) *store {
		s := &store{}
		s.url = "etcd://" + s.behind(t, servertest.EtcdCluster(t, 3))
		return s
	},
	"zookeeper": func(t servertest.TB) *store {
		s := &store{}
		s.url = "zk://" + s.behind(t, servertest.ZooKeeperEnsemble(t, 3)) + "?session=" + ttl.String()
		return s
	},
	"postgres": func(t servertest.TB) *store {
		s := &store{}
		server := servertest.Postgres(t, "fsync = on")
		s.url = "postgres://postgres@" + s.behind(t, []*servertest.Server{server}) + "/postgres"
		return s
	},
	"mariadb": func(t servertest.TB) *store {
		s := &store{}
		server := servertest.MySQL(t, "innodb_flush_log_at_trx_commit=1")
		s.url = "mysql://root@" + s.behind(t, []*servertest.Server{server}) + "/mysql"
		return s
	},
}
