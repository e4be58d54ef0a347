//go:build unix

package main

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/stilelock/stile/internal/servertest"
)

// python and node return kinds of clients in other languages; addrs are the addresses of one or several servers.
func (w *setting) python(name, lock, addrs string) kind {
	python := filepath.Join(w.redis, "target", "python", "bin", "python")
	return w.foreign(name, python, filepath.Join(w.redis, "peer.py"), lock, addrs)
}

func (w *setting) node(name, addrs string) kind {
	return w.foreign(name, "node", filepath.Join(w.redis, "target", "peer.js"), addrs)
}

// foreign returns a kind whose client is a program that takes orders in lines.
func (w *setting) foreign(name string, args ...string) kind {
	args = append(args, strconv.FormatInt(session.Milliseconds(), 10))
	return kind{name: name, ends: session, start: func() (client, error) { return converse(w.dir, args...) }}
}

// oneRedis returns a store of one server, where each lock is one string.
func (w *setting) oneRedis(t servertest.TB) *store {
	addr := servertest.Redis(t).Addr
	url := "redis://" + addr + "?layout=setnx"
	redlockPy := w.python("redlock-py", "redlock-py", addr)
	redlockPy.fixed = true
	others := []kind{
		w.own("redsync", addr), w.own("redislock", addr), w.own("rueidis", addr),
		w.python("redis-py", "redis-py", addr), redlockPy, w.node("node-redlock", addr),
	}
	s := &store{
		name:   "Redis",
		names:  "orders {42}, Größe ",
		leases: true,
		kinds: append(
			slices.Clone(others), w.own("stile", url), w.run(url), w.own("stile candidate", url),
			w.own("stile", "redis://"+addr).as("stile, queue"), w.own("rueidislock", addr),
		),
	}
	for _, k := range others {
		s.pairs = append(s.pairs, both(k.name, "stile")...)
	}
	s.pairs = slices.Concat(
		s.pairs, both("redis-py", "stile run"), both("redsync", "stile candidate"),
		// Only for the table: these use other keys for the same name.
		together("rueidislock", "stile"), together("stile, queue", "stile"),
	)
	return s
}
