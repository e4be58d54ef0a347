package memcached_test

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/memcached"
)

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

// slack is for leases of whole seconds, which end up to three seconds late.
const slack = 4 * time.Second

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("memcached://" + servertest.Memcached(t).Addr), Slack: slack})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener("memcached://" + servertest.Memcached(t).Addr), Slack: slack}, 3, 100)
}

func TestContractOfPlain(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener("memcached://" + servertest.Memcached(t).Addr + "?layout=plain"), Slack: slack})
}
