package zookeeper_test

import (
	"crypto/rand"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/zookeeper"
)

// open opens a driver that is closed when the test ends.
func open(t testing.TB, url string) driver.Driver {
	t.Helper()
	d, err := driver.Open(t.Context(), url)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// store is the store at an address.
func store(addr string) drivertest.Store {
	return drivertest.Store{
		Open: func(t testing.TB) driver.Driver { return open(t, "zk://"+addr) },
		// A short session is soon moved to another connection.
		Detour: func(t testing.TB) *drivertest.Detour {
			p := servertest.NewProxy(t, addr)
			return &drivertest.Detour{Driver: open(t, "zk://"+p.Addr+"?session=2s"), Way: p}
		},
		Fresh:   fresh(addr, ""),
		Mishaps: mishaps(),
		Behind: map[string]func(testing.TB) *drivertest.Behind{
			"an ensemble":            func(t testing.TB) *drivertest.Behind { return behindFake(t, three) },
			"a server that was lone": func(t testing.TB) *drivertest.Behind { return behindFake(t, "") },
		},
	}
}

// mishaps are those of a server. Where its data are wiped, the sessions of its clients have ended, too.
func mishaps() map[string]func(testing.TB) *drivertest.Mishap {
	all := drive.Mishaps(func(t testing.TB) *servertest.Server { return servertest.ZooKeeper(t) },
		func(addrs ...string) string { return "zk://" + addrs[0] }, "data", true)
	wiped := all[drive.Wiped]
	all[drive.Wiped] = func(t testing.TB) *drivertest.Mishap {
		m, clients := wiped(t), []*zookeeper.Driver(nil)
		opens, happens := m.Open, m.Happens
		m.Open = func() (driver.Driver, error) {
			d, err := opens()
			if err == nil {
				clients = append(clients, d.(*zookeeper.Driver))
			}
			return d, err
		}
		m.Happens = func() {
			for _, d := range clients {
				d.EndSession()
			}
			happens()
		}
		return m
	}
	return all
}

// fresh makes stores of a server, with these parameters more, under prefixes of their own.
func fresh(addr, more string) func(testing.TB) func() driver.Driver {
	return func(t testing.TB) func() driver.Driver {
		url := "zk://" + addr + "?prefix=" + rand.Text() + "/" + more
		return func() driver.Driver { return open(t, url) }
	}
}

func TestConformance(t *testing.T) {
	s := store(servertest.ZooKeeper(t).Addr)
	drive.Lacks(t, s.Open, driver.TraitLockDelay)
	drivertest.Run(t, s)
}

func TestModel(t *testing.T) {
	s := servertest.ZooKeeper(t)
	for seed := range uint64(4) {
		drivertest.Model(t, drivertest.Store{Open: func(t testing.TB) driver.Driver { return open(t, "zk://"+s.Addr) }}, seed, 150)
	}
}

// A try is in its queue until its client knows that others stand before it, and longer if the connection breaks then.
func TestConcurrent(t *testing.T) {
	s := store(servertest.ZooKeeper(t).Addr)
	s.Halfway = true
	drivertest.Concurrent(t, s, 1, 6)
}
