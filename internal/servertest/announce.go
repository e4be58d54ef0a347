//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A front is the proxies of servers that announce themselves to clients: each announces the address of its proxy.
type front struct {
	t  TB
	of map[*Server]*Proxy
}

// port returns the port of the proxy of a server, which passes everything on to where the server is now.
func (f *front) port(s *Server) string {
	p := f.of[s]
	if p == nil {
		p = NewProxy(f.t, s.Addr)
		f.of[s] = p
	}
	p.Retarget(s.Addr) // a start that failed is tried again on another port
	_, port, _ := strings.Cut(p.Addr, ":")
	return port
}

func (f *front) proxies(list ...*Server) []*Proxy {
	var all []*Proxy
	for _, s := range list {
		all = append(all, f.of[s])
	}
	return all
}

// RedisClusterBehind starts a [RedisCluster] whose servers tell clients the addresses of their proxies. The servers reach
// each other directly.
func RedisClusterBehind(t TB, args ...string) ([]*Server, []*Proxy) {
	t.Helper()
	f := &front{t, map[*Server]*Proxy{}}
	list := redisCluster(t, func(s *Server) []string {
		return append([]string{"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", f.port(s)}, args...)
	})
	for _, s := range list {
		Until(t, "the servers know the addresses of the proxies", func() bool {
			slots := fmt.Sprint(s.Redis([]string{"CLUSTER", "SLOTS"}))
			return !slices.ContainsFunc(list, func(o *Server) bool { return !strings.Contains(slots, " "+f.port(o)+" ") })
		})
	}
	return list, f.proxies(list...)
}

// RedisSentinelBehind starts a primary, a replica and a Sentinel that know each other by the addresses of their
// proxies, which are returned in this order. The settings that a Sentinel has written to the servers outlive their
// restart. Lines of configuration are added for the primary and for the replica.
func RedisSentinelBehind(t TB, config ...string) (*Sentinels, []*Proxy) {
	t.Helper()
	f := &front{t, map[*Server]*Proxy{}}
	config = append(config, "repl-diskless-sync-delay 0", "replica-announce-ip 127.0.0.1", `save ""`)
	set := &Sentinels{Name: "main", Primary: f.start(nil, config...)}
	set.Replica = f.start(nil, append(config, "replicaof 127.0.0.1 "+f.port(set.Primary))...)
	Until(t, "the replica is in step", func() bool { return set.Replica.RedisInfo("master_link_status") == "up" })
	set.Sentinel = f.start([]string{"--sentinel"},
		"sentinel monitor "+set.Name+" 127.0.0.1 "+f.port(set.Primary)+" 1",
		"sentinel down-after-milliseconds "+set.Name+" 500",
		"sentinel failover-timeout "+set.Name+" 2000",
	)
	Until(t, "the sentinel knows the replica", func() bool {
		list, _ := set.Sentinel.Redis([]string{"SENTINEL", "REPLICAS", set.Name}).([]any)
		return len(list) == 1
	})
	set.front = f
	set.Moved(t)
	return set, f.proxies(set.Primary, set.Replica, set.Sentinel)
}

// start starts a server with a configuration file, into which it may write. A server that is not a Sentinel, which has no
// arguments, announces its proxy.
func (f *front) start(args []string, lines ...string) *Server {
	const name = "redis.conf"
	return Start(f.t, Process{
		Binary: redisBinary(f.t), Package: "redis-server",
		Files: func(s *Server) error {
			port, path := f.port(s), filepath.Join(s.Dir, name)
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			text := append([]string{"bind 127.0.0.1", "dir " + s.Dir}, lines...)
			if args == nil {
				text = append(text, "replica-announce-port "+port)
			}
			return os.WriteFile(path, []byte(strings.Join(text, "\n")+"\n"), 0o600)
		},
		Args: func(s *Server) []string {
			_, port, _ := strings.Cut(s.Addr, ":")
			return append([]string{filepath.Join(s.Dir, name), "--port", port}, args...)
		},
		Ready: func(s *Server) error { return redisReady(s.Addr, nil) },
	})
}

// Moved waits until the servers of [RedisSentinelBehind] agree which of the two is the primary and the other follows it,
// and reports whether there was a failover since it was asked before. Primary and Replica are then what the servers are.
func (set *Sentinels) Moved(t TB) bool {
	t.Helper()
	var epoch, last string
	settled := false
	defer func() { // a test that fails ends here
		if !settled {
			t.Logf("last seen: %s", last)
		}
	}()
	Within(t, settledWithin, "the servers agree which of them is the primary", func() bool {
		if set.Primary.replication()["role"] != "master" {
			set.Primary, set.Replica = set.Replica, set.Primary
		}
		seen, other := set.asked("MASTER"), set.asked("REPLICAS")
		primary, replica := set.Primary.replication(), set.Replica.replication()
		epoch = seen["config-epoch"]
		last = fmt.Sprintf("the Sentinel's primary %v, its replica %v; the primary %v, the replica %v", seen, other, primary,
			replica)
		return primary["role"] == "master" && seen["flags"] == "master" && seen["port"] == set.front.port(set.Primary) &&
			replica["role"] == "slave" && replica["master_link_status"] == "up" && replica["master_port"] == seen["port"] &&
			other["flags"] == "slave" && other["master-link-status"] == "ok"
	})
	settled = true
	before := set.epoch
	set.epoch = epoch
	return epoch != before
}

// settledWithin bounds the time until a primary that comes back follows the one that took over. A Sentinel watches it
// for 8 s before it makes it a replica, and reads its role each 10 s; on a busy machine it may take a server for
// gone, and begin again. A run of TestFailover of chaos takes 30 to 44 s in all, and took more than a minute once.
const settledWithin = 2 * time.Minute

// replication returns what a server says of its part in the replication, and nothing if it does not answer: a server that
// changes its part ends connections.
func (s *Server) replication() map[string]string {
	fields := map[string]string{}
	text, _ := s.redisCommand("INFO", "replication").(string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

// redisCommand runs a command on a Redis server, and returns nil if that fails.
func (s *Server) redisCommand(args ...string) any {
	c, err := DialRedis(s.Addr, nil)
	if err != nil {
		return nil
	}
	defer c.Close()
	answer, err := c.Do(args...)
	if err != nil {
		return nil
	}
	return answer
}

// asked returns what the Sentinel has to say of the primary, or of its replica if it has one.
func (set *Sentinels) asked(what string) map[string]string {
	list, _ := set.Sentinel.redisCommand("SENTINEL", what, set.Name).([]any)
	if what == "REPLICAS" && len(list) == 1 {
		list, _ = list[0].([]any)
	}
	fields := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return fields
}
