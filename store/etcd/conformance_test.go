package etcd_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// slack bounds how late etcd ends a lease: etcd checks leases twice a second.
const slack = 2 * time.Second

// store describes the store at an address.
func store(addr string) drivertest.Store {
	return drivertest.Store{
		Open: drive.Opener("etcd://" + addr), Slack: slack,
		Detour: func(t testing.TB) *drivertest.Detour { return detour(t, addr) },
		Fresh:  fresh(addr), Succession: succession,
		Foreign: map[string]func(testing.TB, string) *drivertest.Foreign{
			"concurrency.Mutex": func(t testing.TB, name string) *drivertest.Foreign { return mutex(t, addr, name) },
		},
		Mishaps: drive.Mishaps(func(t testing.TB) *servertest.Server { return servertest.Etcd(t) },
			func(addrs ...string) string { return "etcd://" + addrs[0] }, "data", true),
	}
}

// fresh returns a function that opens drivers of a new, empty store: each store has a prefix of its own on the server.
func fresh(addr string) func(testing.TB) func() driver.Driver {
	return func(t testing.TB) func() driver.Driver {
		open := drive.Opener("etcd://" + addr + "?prefix=" + rand.Text() + "/")
		return func() driver.Driver { return open(t) }
	}
}

// succession makes the leadership pass from one member to another. The former leader then believes that all its leases have
// run out, and has the members revoke them, as a leader does that goes on after it stood still.
func succession(t testing.TB) *drivertest.Succession {
	var addrs []string
	for _, s := range servertest.EtcdCluster(t, 3) {
		addrs = append(addrs, s.Addr)
	}
	by, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { by.Close() })
	var knew []clientv3.LeaseStatus
	return &drivertest.Succession{
		Open: func() driver.Driver { return drive.Opener("etcd://" + strings.Join(addrs, ","))(t) },
		Succeeds: func() {
			r, err := by.Leases(drive.Timely(t))
			if err != nil {
				t.Fatal(err)
			}
			knew = r.Leases
			etcd.NewLeader(t, addrs)
		},
		GoesOn: func() {
			for _, l := range knew {
				_, _ = by.Revoke(drive.Timely(t), l.ID) // some have ended, so it may fail
			}
		},
	}
}

// mutex returns a lock of etcd's own client library.
func mutex(t testing.TB, addr, name string) *drivertest.Foreign {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m := concurrency.NewMutex(s, "stile/"+driver.EncodeName(name))
	return &drivertest.Foreign{
		Holds: func() bool {
			err := m.TryLock(drive.Timely(t))
			if err != nil && !errors.Is(err, concurrency.ErrLocked) {
				t.Fatal(err)
			}
			return err == nil
		},
		Leave: func() {
			if err := m.Unlock(drive.Timely(t)); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := store(servertest.Etcd(t).Addr)
	drive.Lacks(t, s.Open)
	drivertest.Run(t, s)
}

func TestContractOnOldServer(t *testing.T) {
	t.Parallel()
	addr := servertest.EtcdOld(t).Addr
	drivertest.Run(t, drivertest.Store{Open: drive.Opener("etcd://" + addr), Slack: slack, Fresh: fresh(addr)})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: drive.Opener("etcd://" + servertest.Etcd(t).Addr), Slack: slack}, 1, 300)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	drivertest.Concurrent(t, store(servertest.Etcd(t).Addr), 1, 6)
}
