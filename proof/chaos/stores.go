//go:build unix

package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/consul"
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/remote"
	_ "github.com/stilelock/stile/store/shard"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "github.com/stilelock/stile/store/zookeeper"
)

// A store is the store of a run: its servers, each behind a proxy, and the URLs for its clients.
type store struct {
	urls    []string // the first worker uses the first, and so on, beginning again after the last
	servers []*servertest.Server
	proxies []*servertest.Proxy
	// The balancer before the servers; nil if there is none.
	balancer *balancer

	// After these kinds of faults the store may have forgotten claims, and their holders trust them until their leases end.
	forgets []string
	// Moved waits until the servers have settled, and reports whether there was a failover since its last call that may
	// have lost claims. It is nil if a failover never loses claims.
	moved func() bool
	// Admin has the faults of an administrator by kind, nil for faults that the store does not have.
	admin map[string]admin
	// Rest returns the keys on the servers, except keys that outlive all claims. It is nil if only the store's list is
	// checked.
	rest func() []string
	// Broken returns the defects that the servers themselves have reported. It is nil if nobody reads their messages.
	broken func() []string
}

// behind adds servers, puts a proxy before each, and returns the addresses of the proxies.
func (s *store) behind(t servertest.TB, servers ...*servertest.Server) []string {
	s.servers = append(s.servers, servers...)
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, s.way(t, server))
	}
	return addrs
}

// way puts another proxy before a server, and returns the address of the proxy.
func (s *store) way(t servertest.TB, server *servertest.Server) string {
	p := servertest.NewProxy(t, server.Addr)
	s.proxies = append(s.proxies, p)
	return p.Addr
}

// addrs returns the servers' addresses.
func (s *store) addrs() (list []string) {
	for _, p := range s.proxies {
		list = append(list, p.Addr)
	}
	return list
}

// at sets the one URL that all workers use, and returns the store.
func (s *store) at(url ...string) *store {
	s.urls = []string{strings.Join(url, "")}
	return s
}

// stores has the functions that start the stores, by the names of runs.
var stores = map[string]func(t servertest.TB) *store{
	"sqlite": func(t servertest.TB) *store {
		return (&store{}).at("sqlite://", filepath.Join(t.TempDir(), "locks.db"))
	},
	"etcd":   func(t servertest.TB) *store { return etcd(t, servertest.EtcdCluster(t, 3)...) },
	"etcd-1": func(t servertest.TB) *store { return etcd(t, servertest.Etcd(t)) },
	"zookeeper": func(t servertest.TB) *store {
		s := &store{}
		addrs := s.behind(t, servertest.ZooKeeperEnsemble(t, 3)...)
		return s.at("zk://", strings.Join(addrs, ","), "?session=", ttl.String())
	},
	"consul":   func(t servertest.TB) *store { return consul(t, servertest.Consul(t, nil)) },
	"consul-3": func(t servertest.TB) *store { return consul(t, servertest.ConsulCluster(t, 3, nil)...) },
	"postgres": func(t servertest.TB) *store { return postgres(t, "") },
	"postgres-session": func(t servertest.TB) *store {
		s := postgres(t, "?mode=session")
		// The locks end with the connection.
		s.forgets = []string{cutConnections, dropConnections, restartServer, killServer, killConnections}
		return s
	},
	"mariadb": func(t servertest.TB) *store { return mariadb(t, "") },
	"mysql-session": func(t servertest.TB) *store {
		s := mariadb(t, "?mode=session")
		// The locks end with the connection.
		s.forgets = []string{cutConnections, dropConnections, restartServer, killServer, killConnections}
		return s
	},
	"memcached": func(t servertest.TB) *store {
		s := &store{forgets: []string{restartServer, killServer, deleteClaim}, admin: memcachedAdmin}
		return s.at("memcached://", s.behind(t, servertest.Memcached(t, "-M"))[0])
	},
	"redis": func(t servertest.TB) *store {
		s, addrs := several(t, 1)
		return s.at("redis://", addrs[0])
	},
	"redis-setnx": func(t servertest.TB) *store {
		s, addrs := several(t, 1)
		return s.at("redis://", addrs[0], "?layout=setnx")
	},
	"redis-sentinel": func(t servertest.TB) *store {
		set, proxies := servertest.RedisSentinelBehind(t, "appendonly yes", "appendfsync always")
		s := &store{
			servers: []*servertest.Server{set.Primary, set.Replica, set.Sentinel}, proxies: proxies,
			moved: func() bool { return set.Moved(t) },
		}
		s.rest = func() []string { return keys(set.Primary) }
		return s.at("redis+sentinel://", proxies[2].Addr, "/", set.Name)
	},
	"redis-cluster": func(t servertest.TB) *store {
		s := &store{forgets: []string{deleteClaim}, admin: redisAdmin}
		s.servers, s.proxies = servertest.RedisClusterBehind(t, durable...)
		s.rest = func() []string { return keys(s.servers...) }
		return s.at("redis+cluster://", s.proxies[0].Addr, ",", s.proxies[1].Addr, ",", s.proxies[2].Addr)
	},
	"redlock-3": func(t servertest.TB) *store { return redlock(t, 3) },
	"redlock-5": func(t servertest.TB) *store { return redlock(t, 5) },
	"shard": func(t servertest.TB) *store {
		s, addrs := several(t, 2)
		return s.at("shard://?stores=a=redis://", addrs[0], ";b=redis://", addrs[1])
	},
	"serve": func(t servertest.TB) *store {
		redis := servertest.Redis(t, durable...)
		s := &store{
			servers: []*servertest.Server{redis}, rest: func() []string { return keys(redis) },
			forgets: []string{deleteClaim}, admin: only(redis, redisAdmin),
		}
		return s.served(t, func() string { return "redis://" + s.way(t, redis) })
	},
	"serve-sqlite": func(t servertest.TB) *store {
		url := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
		return (&store{}).served(t, func() string { return url })
	},
	"tair-exset": func(t servertest.TB) *store {
		server := servertest.Tair(t, durable...)
		p := servertest.NewProxy(t, server.Addr)
		s := &store{servers: []*servertest.Server{server.Server}, proxies: []*servertest.Proxy{p}}
		return s.at("tair://", p.Addr, "?layout=exset")
	},
}

func storeList() string { return strings.Join(slices.Sorted(maps.Keys(stores)), ", ") }

// durable are the arguments of a Redis server that loses no acknowledged write.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// several starts durable Redis servers that know nothing of each other, and returns the addresses of their proxies.
func several(t servertest.TB, n int) (s *store, addrs []string) {
	var list []*servertest.Server
	for range n {
		list = append(list, servertest.Redis(t, durable...))
	}
	s = &store{forgets: []string{deleteClaim}, admin: redisAdmin, rest: func() []string { return keys(list...) }}
	return s, s.behind(t, list...)
}

// redlock uses servers that vote again at once after a restart, since they forget nothing. It also shortens how long a
// server does not vote whose clock seems to have jumped, to fit into a short run.
func redlock(t servertest.TB, n int) *store {
	s, addrs := several(t, n)
	return s.at("redlock://", strings.Join(addrs, ","), "?max_ttl=10s")
}

func etcd(t servertest.TB, servers ...*servertest.Server) *store {
	s := &store{forgets: []string{deleteClaim}, admin: etcdAdmin}
	return s.at("etcd://", strings.Join(s.behind(t, servers...), ","))
}

// consul gives each worker one of the agents, as each machine has its own.
func consul(t servertest.TB, servers ...*servertest.Server) *store {
	s := &store{}
	for _, addr := range s.behind(t, servers...) {
		s.urls = append(s.urls, "consul://"+addr)
	}
	return s
}

func postgres(t servertest.TB, parameters string) *store {
	s := &store{admin: postgresAdmin}
	addrs := s.behind(t, servertest.Postgres(t, "fsync = on"))
	return s.at("postgres://postgres@", addrs[0], "/postgres", parameters)
}

func mariadb(t servertest.TB, parameters string) *store {
	s := &store{admin: mysqlAdmin}
	addrs := s.behind(t, servertest.MySQL(t, "innodb_flush_log_at_trx_commit=1"))
	return s.at("mysql://root@", addrs[0], "/mysql", parameters)
}

// keys returns the keys of Redis servers, except the keys that remember the last ticket of a name for an hour, the store's id,
// and the list of a shard's clients, which contains observers too.
func keys(servers ...*servertest.Server) (list []string) {
	for _, s := range servers {
		found, _ := s.Redis([]string{"KEYS", "*"}).([]any)
		for _, key := range found {
			text, _ := key.(string)
			if text != "stile/id" && !strings.HasPrefix(text, "stile/ticket/") && !strings.HasPrefix(text, "stile/{stile-shard") {
				list = append(list, text)
			}
		}
	}
	slices.Sort(list)
	return list
}
