package sqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func conforming(t testing.TB) drivertest.Store {
	path := filepath.Join(t.TempDir(), "locks.db")
	return drivertest.Store{
		Open: func(t testing.TB) driver.Driver { return open(t, path) },
		Fresh: func(t testing.TB) func() driver.Driver {
			o := &Options{Prefix: fmt.Sprintf("fresh%d_", fresh.Add(1))}
			return func() driver.Driver {
				d, err := Open(t.Context(), path, o)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
		},
		Mishaps: mishapsOfFiles,
		Edge: drive.Edges(func(t testing.TB, _ string) (string, func(int64)) {
			path := lockFile(t)
			return "sqlite://" + path, func(ticket int64) {
				mustExec(t, raw(t, path), fmt.Sprint("UPDATE stile_meta SET last = ", ticket))
			}
		}),
	}
}

// fresh numbers the prefixes of stores in one file.
var fresh atomic.Int64

// mishapsOfFiles are mishaps of a lock file, on systems where the tests can cause them.
var mishapsOfFiles map[string]func(testing.TB) *drivertest.Mishap

func TestConformance(t *testing.T) {
	s := conforming(t)
	drive.Lacks(t, s.Open)
	drivertest.Run(t, s)
}

func TestModel(t *testing.T) {
	for seed := range uint64(4) {
		drivertest.Model(t, conforming(t), seed, 300)
	}
}

func TestConcurrent(t *testing.T) { drivertest.Concurrent(t, conforming(t), 1, 10) }
