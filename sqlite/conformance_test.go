package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
)

func conforming(t testing.TB) drivertest.Store {
	path := filepath.Join(t.TempDir(), "locks.db")
	return drivertest.Store{
		Open: func(t testing.TB) driver.Driver { return open(t, path) },
		Fresh: func(t testing.TB) func() driver.Driver {
			path := filepath.Join(t.TempDir(), "fresh.db")
			return func() driver.Driver { return open(t, path) }
		},
	}
}

func TestConformance(t *testing.T) { drivertest.Run(t, conforming(t)) }

func TestModel(t *testing.T) {
	for seed := range uint64(4) {
		drivertest.Model(t, conforming(t), seed, 300)
	}
}

func TestConcurrent(t *testing.T) { drivertest.Concurrent(t, conforming(t), 1, 10) }
