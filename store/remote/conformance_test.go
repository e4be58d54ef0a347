//go:build unix

package remote_test

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
)

// inMemory is a store in this process.
func inMemory() drivertest.Store {
	store := memory.NewStore()
	return drivertest.Store{
		Open: func(testing.TB) driver.Driver { return store.Driver() },
		Fresh: func(testing.TB) func() driver.Driver {
			fresh := memory.NewStore()
			return func() driver.Driver { return fresh.Driver() }
		},
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := drive.Served(t, 1, inMemory())
	drive.Lacks(t, s.Open)
	drivertest.Run(t, s)
}

// A service with credentials adds its client's principal to each record in the store, and its clients do not notice.
func TestContractWithPrincipal(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drive.Guarded(t, inMemory()))
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drive.Served(t, 1, inMemory()), 1, 400)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	drivertest.Concurrent(t, drive.Served(t, 1, inMemory()), 1, 10)
}
