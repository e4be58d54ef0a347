//go:build unix

package servertest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Redis starts a Redis server that keeps nothing on disk, with the arguments added to its command line.
func Redis(t TB, args ...string) *Server {
	t.Helper()
	return Start(t, redisServer(t, 1, func(s *Server) []string {
		return append([]string{"--port", strconv.Itoa(s.Ports[0])}, args...)
	}, nil))
}

// RedisTLS starts a Redis server that speaks only TLS. It returns the file of the authority that signed its certificate,
// which is for 127.0.0.1 and localhost.
func RedisTLS(t TB, args ...string) (s *Server, authority string) {
	t.Helper()
	files := certificate(t)
	trust, err := files.config()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return Start(t, redisServer(t, 1, func(s *Server) []string {
		return append([]string{
			"--port", "0", "--tls-port", strconv.Itoa(s.Ports[0]), "--tls-auth-clients", "optional",
			"--tls-cert-file", files.cert, "--tls-key-file", files.key, "--tls-ca-cert-file", files.authority,
		}, args...)
	}, trust)), files.authority
}

// RedisFolder is the variable of the environment that names the folder of the Redis or Valkey to start: its bin has
// redis-server or valkey-server. Without it, that is the one of the system.
const RedisFolder = "STILE_REDIS"

func redisBinary(t TB) string {
	t.Helper()
	folder := folderOf(t, RedisFolder)
	if folder == "" {
		return "redis-server"
	}
	valkey := filepath.Join(folder, "bin", "valkey-server")
	if _, err := os.Stat(valkey); err == nil {
		return valkey
	}
	return filepath.Join(folder, "bin", "redis-server")
}

// RedisData is the folder of the data of a Redis server, in the folder of the server.
const RedisData = "data"

func redisServer(t TB, ports int, args func(s *Server) []string, trust *tls.Config) Process {
	t.Helper()
	return Process{
		Binary: redisBinary(t), Package: "redis-server", Ports: ports,
		Files: func(s *Server) error { return os.MkdirAll(filepath.Join(s.Dir, RedisData), 0o700) },
		Args: func(s *Server) []string {
			data := filepath.Join(s.Dir, RedisData)
			return append([]string{"--bind", "127.0.0.1", "--dir", data, "--save", "", "--appendonly", "no"}, args(s)...)
		},
		Ready: func(s *Server) error { return redisReady(s.Addr, trust) },
	}
}

// redisReady takes every answer but "still loading" for a yes: a server that asks for a password is up.
func redisReady(addr string, trust *tls.Config) error {
	c, err := DialRedis(addr, trust)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Do("PING")
	var answer RedisError
	if errors.As(err, &answer) && !strings.HasPrefix(string(answer), "LOADING") {
		return nil
	}
	return err
}

// Redis runs commands on a Redis server that has neither TLS nor a password, one connection for all, and returns the
// last answer. The test fails if a command does.
func (s *Server) Redis(commands ...[]string) any {
	s.t.Helper()
	c, err := DialRedis(s.Addr, nil)
	if err != nil {
		s.t.Fatalf("%v", err)
		return nil
	}
	defer c.Close()
	var last any
	for _, args := range commands {
		if last, err = c.Do(args...); err != nil {
			s.t.Fatalf("redis %s: %v", args[0], err)
		}
	}
	return last
}

// RedisInfo returns one field of a Redis server's INFO, or "" if it has none.
func (s *Server) RedisInfo(field string) string {
	s.t.Helper()
	text, _ := s.Redis([]string{"INFO", "everything"}).(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// A Sentinels is one Redis primary with a replica, watched by one Sentinel that may decide alone.
type Sentinels struct {
	Name                       string // of the primary, as Sentinel knows it
	Primary, Replica, Sentinel *Server

	front *front // nil without proxies
	epoch string // of the failover before, as the Sentinel counts them
}

// RedisSentinel starts a primary, a replica and a Sentinel, and returns when the replica is in step and the Sentinel
// knows both.
func RedisSentinel(t TB) *Sentinels {
	t.Helper()
	set := &Sentinels{Name: "main", Primary: Redis(t, "--repl-diskless-sync-delay", "0")}
	host, port, _ := strings.Cut(set.Primary.Addr, ":")
	set.Replica = Redis(t, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	Until(t, "the replica is in step", func() bool { return set.Replica.RedisInfo("master_link_status") == "up" })
	set.Sentinel = Start(t, Process{
		Binary: redisBinary(t), Package: "redis-server",
		Files: func(s *Server) error {
			lines := []string{
				fmt.Sprintf("port %d", s.Ports[0]), "bind 127.0.0.1", "dir " + s.Dir,
				fmt.Sprintf("sentinel monitor %s %s %s 1", set.Name, host, port),
				"sentinel down-after-milliseconds " + set.Name + " 500",
				"sentinel failover-timeout " + set.Name + " 2000",
			}
			return os.WriteFile(filepath.Join(s.Dir, "sentinel.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
		},
		Args:  func(s *Server) []string { return []string{filepath.Join(s.Dir, "sentinel.conf"), "--sentinel"} },
		Ready: func(s *Server) error { return redisReady(s.Addr, nil) },
	})
	Until(t, "the sentinel knows the replica", func() bool {
		list, _ := set.Sentinel.Redis([]string{"SENTINEL", "REPLICAS", set.Name}).([]any)
		return len(list) == 1
	})
	set.Settle(t)
	return set
}

// Settle waits until the replica has all that the primary has, and the Sentinel knows that their link is up: a Sentinel
// does not promote a replica that it believes to be cut off, and what the replica lacks is lost in a failover.
func (set *Sentinels) Settle(t TB) {
	t.Helper()
	Until(t, "the replica has all that the primary has", func() bool {
		return set.Replica.RedisInfo("master_link_status") == "up" &&
			set.Replica.RedisInfo("slave_repl_offset") == set.Primary.RedisInfo("master_repl_offset")
	})
	Until(t, "the sentinel knows that the link is up", func() bool {
		list, _ := set.Sentinel.Redis([]string{"SENTINEL", "REPLICAS", set.Name}).([]any)
		if len(list) != 1 {
			return false
		}
		fields, _ := list[0].([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == "master-link-status" {
				return fields[i+1] == "ok"
			}
		}
		return false
	})
}

// Failover makes the replica the primary, although the primary is well, and returns when the Sentinel says so. A failover
// that takes longer than failover-timeout is given up, and another is begun then.
func (set *Sentinels) Failover(t TB) {
	t.Helper()
	set.Settle(t)
	Until(t, "the replica is the primary", func() bool {
		primary := set.asked("MASTER")
		if primary["port"] == strconv.Itoa(set.Replica.Ports[0]) {
			return true
		}
		if primary["flags"] == "master" { // and none is under way
			set.Sentinel.redisCommand("SENTINEL", "FAILOVER", set.Name)
		}
		return false
	})
}

// TookOver waits until the replica is the primary, and the Sentinel says so.
func (set *Sentinels) TookOver(t TB) {
	t.Helper()
	Until(t, "the replica is the primary", func() bool {
		addr, _ := set.Sentinel.Redis([]string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.Name}).([]any)
		return len(addr) == 2 && addr[1] == strconv.Itoa(set.Replica.Ports[0])
	})
}

// RedisCluster starts a cluster of three primaries that serve all slots, and returns when each of them says so.
func RedisCluster(t TB, args ...string) []*Server {
	t.Helper()
	return redisCluster(t, func(*Server) []string { return args })
}

// RedisClusterReplica adds a replica of its first server to a cluster.
func RedisClusterReplica(t TB, cluster []*Server) *Server {
	t.Helper()
	first := cluster[0]
	s := Start(t, clusterServer(t, nil))
	id, _ := first.Redis([]string{"CLUSTER", "MYID"}).(string)
	s.Redis([]string{"CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(first.Ports[0]), strconv.Itoa(first.Ports[1])})
	Until(t, "the replica knows the primary", func() bool {
		known, _ := s.Redis([]string{"CLUSTER", "NODES"}).(string)
		return strings.Contains(known, id)
	})
	s.Redis([]string{"CLUSTER", "REPLICATE", id})
	for _, node := range cluster {
		Until(t, "all servers know the replica", func() bool {
			slots, _ := node.Redis([]string{"CLUSTER", "SLOTS"}).([]any)
			for _, part := range slots {
				if list, _ := part.([]any); len(list) == 4 {
					return true
				}
			}
			return false
		})
	}
	return s
}

// clusterServer is a server of a cluster; args, which may be nil, returns more of its command line.
func clusterServer(t TB, args func(s *Server) []string) Process {
	return redisServer(t, 2, func(s *Server) []string {
		line := []string{
			"--port", strconv.Itoa(s.Ports[0]), "--cluster-port", strconv.Itoa(s.Ports[1]),
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000",
		}
		if args != nil {
			line = append(line, args(s)...)
		}
		return line
	}, nil)
}

// slotsOf is the command that gives a node some slots. One that names a range is newer than Redis 6.2.
func slotsOf(first, last int) []string {
	command := []string{"CLUSTER", "ADDSLOTS"}
	for slot := first; slot <= last; slot++ {
		command = append(command, strconv.Itoa(slot))
	}
	return command
}

// redisCluster starts the cluster; args are added to the command line of each server.
func redisCluster(t TB, args func(s *Server) []string) []*Server {
	t.Helper()
	const nodes, slots = 3, 16384
	var list []*Server
	for range nodes {
		list = append(list, Start(t, clusterServer(t, args)))
	}
	for i, s := range list {
		first, last := slots*i/nodes, slots*(i+1)/nodes-1
		s.Redis(
			[]string{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			slotsOf(first, last),
			[]string{"CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(list[0].Ports[0]), strconv.Itoa(list[0].Ports[1])},
		)
	}
	for _, s := range list {
		Until(t, "all slots are served", func() bool {
			state, _ := s.Redis([]string{"CLUSTER", "INFO"}).(string)
			ranges, _ := s.Redis([]string{"CLUSTER", "SLOTS"}).([]any)
			return strings.Contains(state, "cluster_state:ok") && len(ranges) == nodes
		})
	}
	return list
}
