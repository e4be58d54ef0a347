package etcd_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(t *testing.T) drivertest.Store { return store(servertest.Etcd(t).Addr) }, nil, 0, 1, 2, 3)
}

func TestSimpleServed(t *testing.T) {
	t.Parallel()
	drive.SimpleServed(t, 2, store(servertest.Etcd(t).Addr))
}

// A known limit: etcd cannot lengthen a lease, so a waiter has its whole ttl. A client that freezes while it waits is granted
// for that time.
func TestFrozenWaiterIsGrantedItsTTL(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	etcd := store(servertest.Etcd(t).Addr)
	if took := drive.FrozenWaiter(t, etcd.Open, ttl); took < ttl/2 {
		t.Errorf("a frozen client with a ttl of %v keeps the lock for %v; the documents say that it keeps it for its ttl", ttl, took)
	}
}
