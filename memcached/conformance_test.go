package memcached_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/memcached"
)

// slack is for leases of whole seconds, which end up to four seconds late.
const slack = 6 * time.Second

func store(t *testing.T, parameters string) drivertest.Store {
	addr := servertest.Memcached(t).Addr
	url := func(addrs ...string) string { return "memcached://" + addrs[0] + parameters }
	return drivertest.Store{Open: drive.Opener(url(addr)), Slack: slack, Detour: drive.Detour(url, addr)}
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
