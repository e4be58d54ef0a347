//go:build unix

package main

import (
	"strings"

	"github.com/stilelock/stile/internal/servertest"
)

// redlock is three servers that know nothing of each other, with locks as a string on most of them.
func (w *setting) redlock(t servertest.TB) *store {
	var list []string
	for range 3 {
		// Servers that keep what they said need not wait for what an earlier run of theirs may have said.
		list = append(list, servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").Addr)
	}
	addrs := strings.Join(list, ",")
	redlockPy := w.python("redlock-py", "redlock-py", addrs)
	redlockPy.fixed = true
	others := []kind{w.own("redsync", addrs), redlockPy, w.node("node-redlock", addrs)}
	s := &store{
		name:   "Redlock",
		names:  "orders {42}, Größe ",
		leases: true,
		kinds:  others,
	}
	s.pairs = each("redsync", "redlock-py", "node-redlock")
	return s
}
