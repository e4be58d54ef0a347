//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/servertest"
)

// A setting has the folders and programs of the clients.
type setting struct {
	self    string // this program
	bin     string // the folder of the programs that make has built
	curator string // the folder of the Java client
	redis   string // the folder of the Python and JavaScript clients
	shed    string // the folder of the Java client of ShedLock
	dir     string
}

// own returns a kind whose client is this program in another process.
func (w *setting) own(name, addr string) kind {
	return kind{name: name, ends: session, start: func() (client, error) { return converse(w.dir, w.self, "peer", name, addr) }}
}

// program returns a kind whose client is a command of its own.
func (w *setting) program(name string, args func(name string) []string) kind {
	return kind{name: name, ends: session, start: func() (client, error) { return &command{dir: w.dir, args: args}, nil }}
}

// run returns the kind of stile run, at a URL.
func (w *setting) run(url string) kind {
	return w.program("stile run", func(name string) []string {
		return []string{
			filepath.Join(w.bin, "stile"), "run", "--url", url, "--ttl", session.String(), name, "--",
			"sh", "-c", fmt.Sprintf("[ \"$STILE_TOKEN\" ] && echo held $((STILE_TOKEN / %d)) || echo held -; exec tail -f /dev/null", engine.Turns),
		}
	})
}

// java returns a kind of Curator's locks.
func (w *setting) java(name, lock, addr string) kind {
	return kind{name: name, ends: session, start: func() (client, error) {
		return converse(w.dir, append(jvm(w.curator), "peer.Peer", lock, addr, strconv.FormatInt(session.Milliseconds(), 10))...)
	}}
}

// jvm returns the beginning of the command line for a small Java program that starts quickly.
func jvm(folder string) []string {
	target := filepath.Join(folder, "target")
	return []string{
		"java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-cp", filepath.Join(target, "classes") + string(os.PathListSeparator) + filepath.Join(target, "lib", "*"),
	}
}

// each returns all ordered pairs of kinds.
func each(kinds ...string) (list []pair) {
	for _, a := range kinds {
		for _, b := range kinds {
			if a != b {
				list = append(list, pair{holder: a, contender: b})
			}
		}
	}
	return list
}

// as returns the kind by another name, for kinds that only differ in their URL.
func (k kind) as(name string) kind {
	k.name = name
	return k
}

// both returns the two ordered pairs of two kinds.
func both(a, b string) []pair { return each(a, b) }

// together returns the two ordered pairs of two kinds that may hold at once.
func together(a, b string) []pair {
	return []pair{{holder: a, contender: b, shares: true}, {holder: b, contender: a, shares: true}}
}

// oneWay returns the two ordered pairs of two kinds where the second waits for the first, but not the other way round.
func oneWay(seen, blind string) []pair {
	return []pair{{holder: blind, contender: seen, shares: true}, {holder: seen, contender: blind}}
}

func (w *setting) zooKeeper(t servertest.TB) *store {
	s := servertest.ZooKeeper(t)
	conn, err := dialZooKeeper(s.Addr)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(conn.Close)
	url := "zk://" + s.Addr + "?prefix=&session=" + session.String()
	rw := url + "&layout=rw"
	read, reader := w.java("Curator read", "read", s.Addr), w.own("stile reader", rw).as("stile reader, rw")
	read.after, reader.after = "Curator write", "stile writer, rw"
	latch := url + "&layout=latch"
	permits := url + "&layout=semaphore"
	one, own := w.java("Curator 1 of 2", "permit", s.Addr), w.own("stile 1 of 2", permits)
	one.after, own.after = "Curator 2 of 2", "stile 2 of 2"
	plain := w.own("stile reader", url)
	plain.after = "stile"
	return &store{
		name: "ZooKeeper",
		kinds: []kind{
			w.java("Curator mutex", "mutex", s.Addr), w.java("Curator write", "write", s.Addr), read,
			w.own("go-zookeeper", s.Addr),
			w.own("stile", url), w.run(url), w.own("stile candidate", url), plain,
			w.own("stile writer", rw).as("stile writer, rw"), reader,
			w.java("Curator downgraded", "downgraded", s.Addr),
			w.java("Curator latch", "latch", s.Addr), w.own("stile candidate", latch).as("stile candidate, latch"),
			w.own("stile", latch).as("stile, latch"),
			w.java("Curator semaphore mutex", "single", s.Addr), w.own("stile", permits).as("stile, semaphore"),
			w.java("Curator 2 of 2", "pair", s.Addr), w.own("stile 2 of 2", permits),
			one, own,
		},
		pairs: slices.Concat(
			each("Curator mutex", "go-zookeeper", "stile"), both("Curator mutex", "stile run"),
			both("Curator mutex", "stile candidate"), both("Curator mutex", "stile reader"), both("go-zookeeper", "stile reader"),
			both("Curator write", "stile writer, rw"), both("Curator write", "stile reader, rw"),
			both("Curator read", "stile writer, rw"), together("Curator read", "stile reader, rw"),
			both("go-zookeeper", "stile writer, rw"), both("Curator write", "Curator read"),
			both("Curator downgraded", "stile writer, rw"),
			[]pair{{holder: "Curator downgraded", contender: "stile reader, rw", shares: true}},
			both("Curator latch", "stile candidate, latch"), both("Curator latch", "stile, latch"),
			both("Curator semaphore mutex", "stile, semaphore"), both("Curator 2 of 2", "stile 2 of 2"),
			both("Curator 1 of 2", "stile 2 of 2"), both("Curator 2 of 2", "stile 1 of 2"),
			together("Curator 1 of 2", "stile 1 of 2"),
			// Only for the table: clients that do or do not see the names of other kinds.
			together("Curator mutex", "Curator write"),
			oneWay("Curator write", "go-zookeeper"), oneWay("Curator write", "stile"), oneWay("Curator latch", "stile candidate"),
		),
		plays: append(w.askings(s.Addr), w.downgrades(conn, s.Addr)...),
	}
}

func (w *setting) etcd(t servertest.TB) *store {
	addr := servertest.Etcd(t).Addr
	elect := w.program("etcdctl elect", func(name string) []string {
		return []string{"etcdctl", "--endpoints", addr, "elect", name, "here"}
	})
	elect.ends = time.Minute // this cannot be configured
	url := "etcd://" + addr + "?prefix="
	reader := w.own("stile reader", url)
	reader.after = "stile"
	return &store{
		name: "etcd",
		kinds: []kind{
			w.own("etcd mutex", addr), w.own("etcd election", addr), w.own("v3lock", addr), w.own("stile", url), w.run(url),
			w.own("stile candidate", url), reader, elect,
			w.program("etcdctl lock", func(name string) []string {
				return []string{"etcdctl", "--endpoints", addr, "lock", "--ttl", fmt.Sprintf("%.0f", session.Seconds()), name}
			}),
		},
		pairs: slices.Concat(
			each("etcd mutex", "v3lock", "etcdctl lock", "etcd election", "stile"),
			both("etcd mutex", "stile reader"), both("etcdctl lock", "stile run"),
			both("etcd election", "stile candidate"), both("etcdctl elect", "stile candidate"),
		),
	}
}

func (w *setting) consul(t servertest.TB) *store {
	addr := servertest.Consul(t, nil).Addr
	library := w.own("consul/api", addr)
	library.delay, library.slow = consulDelay, api.DefaultLockRetryTime
	tool := w.program("consul lock", func(name string) []string {
		return []string{
			filepath.Join(w.bin, "consul"), "lock", "-http-addr", addr, "-shell=false", name,
			"sh", "-c", "echo held -; exec tail -f /dev/null",
		}
	})
	// This cannot be configured.
	tool.ends, tool.delay, tool.slow = 15*time.Second, 15*time.Second, api.DefaultLockRetryTime
	url := "consul://" + addr + "?prefix="
	reader := w.own("stile reader", url)
	reader.after = "stile"
	return &store{
		name:  "Consul",
		kinds: []kind{library, tool, w.own("stile", url), reader},
		pairs: slices.Concat(
			each("consul/api", "consul lock", "stile"),
			// Only for the table: shared holders do not use the key of Consul's own lock.
			together("consul/api", "stile reader"),
		),
	}
}
