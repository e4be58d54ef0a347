package memcached_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memcached"
)

// slack is for leases of whole seconds, which end up to four seconds late.
const slack = 6 * time.Second

func store(t *testing.T, parameters string) drivertest.Store {
	server := servertest.Memcached(t)
	addr := server.Addr
	url := func(addrs ...string) string { return "memcached://" + addrs[0] + parameters }
	s := drivertest.Store{
		Open: drive.Opener(url(addr)), Slack: slack, Detour: drive.Detour(url, addr), Full: full(parameters),
		Mishaps: map[string]func(testing.TB) *drivertest.Mishap{"another process is at its address": startedAnew(url)},
	}
	if parameters != "" { // other programs add a key
		s.Foreign = map[string]func(testing.TB, string) *drivertest.Foreign{
			"add": func(_ testing.TB, name string) *drivertest.Foreign { return add(server, name) },
		}
	}
	return s
}

// startedAnew returns the mishap of a restarted server: it forgets everything, and counts versions from the first again.
func startedAnew(url func(addrs ...string) string) func(testing.TB) *drivertest.Mishap {
	return func(t testing.TB) *drivertest.Mishap {
		s := servertest.Memcached(t)
		return &drivertest.Mishap{
			Open:    func() (driver.Driver, error) { return driver.Open(drive.Timely(t), url(s.Addr)) },
			Happens: s.Restart, Frees: true, Back: 2 * time.Second,
		}
	}
}

// add locks by a key, as many libraries do.
func add(s *servertest.Server, name string) *drivertest.Foreign {
	held := false
	return &drivertest.Foreign{
		Holds: func() bool {
			held = held || s.Memcached("add %s 0 60 6\r\ntheirs\r\n", name) == "STORED\r\n"
			return held
		},
		Leave: func() { s.Memcached("delete %s\r\n", name) },
	}
}

// full returns a function that makes a server that does not evict, and whose memory can be full. Each change stores a whole
// queue again, and nothing is stored for a waiter of layout plain.
func full(parameters string) func(testing.TB) *drivertest.Full {
	return func(t testing.TB) *drivertest.Full {
		s := servertest.Memcached(t, "-m", "4", "-M")
		open := drive.Opener("memcached://" + s.Addr + parameters)
		return &drivertest.Full{
			Open: func() driver.Driver { return open(t) }, Fill: func() { memcached.FillUp(t, s) },
			Says: "no memory left", Renews: parameters != "",
		}
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := store(t, "")
	drive.Lacks(t, s.Open, driver.TraitFencing)
	drivertest.Run(t, s)
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, store(t, ""), 3, 100)
}

func TestContractOfPlain(t *testing.T) {
	t.Parallel()
	s := store(t, "?layout=plain")
	drive.Lacks(t, s.Open, driver.TraitOrder, driver.TraitReaders, driver.TraitPermits, driver.TraitFencing, driver.TraitLockDelay)
	drivertest.Run(t, s)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{"", "?layout=plain"} {
		t.Run(parameters, func(t *testing.T) {
			t.Parallel()
			drivertest.Concurrent(t, store(t, parameters), 1, 6)
		})
	}
}
