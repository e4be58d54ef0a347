package zookeeper_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// open opens a driver that is closed when the test ends. A server that was just started may not answer in time.
func open(t testing.TB, url string) (d driver.Driver) {
	t.Helper()
	if err := reached(t, func() (err error) { d, err = driver.Open(t.Context(), url); return err }); err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// store is the store at an address.
func store(addr string) drivertest.Store {
	return drivertest.Store{
		Open:    func(t testing.TB) driver.Driver { return open(t, "zk://"+addr) },
		Detour:  detour(addr, "6s"),
		Fresh:   fresh(addr, ""),
		Mishaps: mishaps(),
		Edge: map[string]func(testing.TB, string) driver.Driver{
			"2^31 nodes": func(t testing.TB, _ string) driver.Driver { return open(t, "zk://"+newFake(t, 1<<31-3).addr) },
		},
		Foreign: map[string]func(testing.TB, string) *drivertest.Foreign{
			"Curator's mutex":        recipe(addr, "_c_00112233-4455-6677-8899-aabbccddeeff-lock-", false),
			"Curator's leader latch": recipe(addr, "_c_00112233-4455-6677-8899-aabbccddeeff-latch-", true),
			"kazoo's lock":           recipe(addr, "00112233445566778899aabbccddeeff__lock__", false),
		},
		Idle: idle,
		Behind: map[string]func(testing.TB) *drivertest.Behind{
			"an ensemble":            func(t testing.TB) *drivertest.Behind { return behindFake(t, three) },
			"a server that was lone": func(t testing.TB) *drivertest.Behind { return behindFake(t, "") },
		},
	}
}

// detour makes a detour to a store at an address. The shorter a session is, the sooner the client moves it to another
// connection, but a session that is too short ends when a busy machine stands still.
func detour(addr, session string) func(testing.TB) *drivertest.Detour {
	return func(t testing.TB) *drivertest.Detour {
		p := servertest.NewProxy(t, addr)
		return &drivertest.Detour{Driver: open(t, "zk://"+p.Addr+"?session="+session), Way: p}
	}
}

// idle opens a client of an ensemble with short sessions. A client without claims gives many signs of life there.
func idle(t testing.TB) *drivertest.Idle {
	f := newFake(t, 0)
	f.config, f.lasts = three, 600*time.Millisecond
	return &drivertest.Idle{Driver: open(t, "zk://"+f.addr), Beats: func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.beats
	}}
}

// recipe returns a program that makes a node whose name begins like this. It holds the lock if no other node has a lower
// number. A blind program looks only for nodes of its own word, and does not see a claim of stile.
func recipe(addr, begins string, blind bool) func(testing.TB, string) *drivertest.Foreign {
	return func(t testing.TB, name string) *drivertest.Foreign {
		a, dir, own := newAdmin(t, addr), "/stile/"+driver.EncodeName(name), ""
		number := func(path string) string { return path[len(path)-len("0000000000"):] }
		return &drivertest.Foreign{
			Holds: func() bool {
				if own == "" {
					a.create("/stile", dir)
					made := wire.Create(dir+"/"+begins, "host-7", wire.Open)
					if a.do(made); made.Err != nil {
						t.Fatalf("%v", made.Err)
					}
					own = made.Path
				}
				return !slices.ContainsFunc(a.children(dir), func(child string) bool { return number(child) < number(own) })
			},
			Leave: func() { a.remove(own) },
			Blind: blind,
		}
	}
}

// mishaps returns the mishaps of a server. When the server's data are wiped, the sessions of its clients have ended, too.
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

// fresh makes stores of a server under prefixes of their own, with these further parameters.
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

// A try stays in its queue until its client knows that others are ahead of it, and longer if the connection breaks then.
func TestConcurrent(t *testing.T) {
	server := servertest.ZooKeeper(t)
	s := store(server.Addr)
	s.Halfway, s.Detour = true, detour(server.Addr, "2s") // the sessions also end in between
	drivertest.Concurrent(t, s, 1, 6)
}
