//go:build unix

package drive

import (
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// Detour returns a function that opens a client of the store at a URL behind proxies, one per server.
func Detour(url func(addrs ...string) string, servers ...string) func(t testing.TB) *drivertest.Detour {
	return func(t testing.TB) *drivertest.Detour {
		t.Helper()
		var (
			way   ways
			addrs []string
		)
		for _, server := range servers {
			p := servertest.NewProxy(t, server)
			way, addrs = append(way, p), append(addrs, p.Addr)
		}
		return &drivertest.Detour{Driver: Opener(url(addrs...))(t), Way: way}
	}
}

// ways are the ways to all servers of a store. A fault on one is a fault on all.
type ways []drivertest.Way

func (w ways) each(do func(drivertest.Way)) {
	for _, way := range w {
		do(way)
	}
}

func (w ways) Pass()   { w.each(drivertest.Way.Pass) }
func (w ways) Arrive() { w.each(drivertest.Way.Arrive) }
func (w ways) Drop()   { w.each(drivertest.Way.Drop) }

func (w ways) Hold(after int) { w.each(func(way drivertest.Way) { way.Hold(after) }) }

func (w ways) Held() int {
	n := 0
	w.each(func(way drivertest.Way) { n += way.Held() })
	return n
}

func (w ways) Asked() int {
	n := 0
	w.each(func(way drivertest.Way) { n += way.(drivertest.Counter).Asked() })
	return n
}

func (w ways) Carried() int {
	n := 0
	w.each(func(way drivertest.Way) { n += way.(drivertest.Carrier).Carried() })
	return n
}

func (w ways) Freeze(requests, answers bool) {
	w.each(func(way drivertest.Way) { way.Freeze(requests, answers) })
}
