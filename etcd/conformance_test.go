package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	_ "github.com/stilelock/stile/etcd"
	"github.com/stilelock/stile/internal/servertest"
)

// slack is how late etcd ends a lease: it looks twice a second.
const slack = 2 * time.Second

// opener returns what opens one more client of the store at a URL.
func opener(url string) func(t testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		d, err := driver.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("etcd://" + servertest.Etcd(t).Addr), Slack: slack})
}

func TestContractOnOldServer(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("etcd://" + servertest.EtcdOld(t).Addr), Slack: slack})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener("etcd://" + servertest.Etcd(t).Addr), Slack: slack}, 1, 300)
}
