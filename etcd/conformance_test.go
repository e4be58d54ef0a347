package etcd_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/drivertest"
	_ "github.com/stilelock/stile/etcd"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// slack is how late etcd ends a lease: it looks twice a second.
const slack = 2 * time.Second

func TestContract(t *testing.T) {
	t.Parallel()
	addr := servertest.Etcd(t).Addr
	drivertest.Run(t, drivertest.Store{
		Open: drive.Opener("etcd://" + addr), Slack: slack,
		Detour: func(t testing.TB) *drivertest.Detour { return detour(t, addr) },
	})
}

func TestContractOnOldServer(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: drive.Opener("etcd://" + servertest.EtcdOld(t).Addr), Slack: slack})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: drive.Opener("etcd://" + servertest.Etcd(t).Addr), Slack: slack}, 1, 300)
}
