//go:build unix

package main

import (
	"slices"
	"strings"

	"github.com/stilelock/stile/internal/servertest"
)

// redlock returns a store of three servers that know nothing of each other; each lock is a string on most of them.
func (w *setting) redlock(t servertest.TB) *store {
	var list []string
	for range 3 {
		list = append(list, servertest.Redis(t, durable...).Addr)
	}
	addrs := strings.Join(list, ",")
	url := "redlock://" + addrs
	redlockPy := w.python("redlock-py", "redlock-py", addrs)
	redlockPy.fixed = true
	others := []kind{w.own("redsync", addrs), redlockPy, w.node("node-redlock", addrs)}
	s := &store{
		name:   "Redlock",
		names:  "orders {42}, Größe ",
		leases: true,
		kinds:  append(slices.Clone(others), w.own("stile", url), w.run(url)),
	}
	for _, k := range others {
		s.pairs = append(s.pairs, both(k.name, "stile")...)
	}
	s.pairs = append(s.pairs, both("redsync", "stile run")...)
	return s
}

// durable are arguments with which a server loses nothing that it has acknowledged. So stile need not wait for the time in
// which a restarted server may have forgotten locks.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}
