package memory_test

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
)

func TestConformance(t *testing.T) {
	store := memory.NewStore()
	open := func(testing.TB) driver.Driver { return store.Driver() }
	drive.Lacks(t, open)
	drivertest.Run(t, drivertest.Store{
		Open: open,
		Fresh: func(testing.TB) func() driver.Driver {
			fresh := memory.NewStore()
			return func() driver.Driver { return fresh.Driver() }
		},
	})
}

func TestModel(t *testing.T) {
	store := memory.NewStore()
	for seed := range uint64(8) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			drivertest.Model(t, drivertest.Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}, seed, 400)
		})
	}
}

func TestConcurrent(t *testing.T) {
	store := memory.NewStore()
	drivertest.Concurrent(t, drivertest.Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}, 1, 40)
}
