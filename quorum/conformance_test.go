package quorum_test

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/memory"
	"github.com/stilelock/stile/quorum"
)

// over opens a quorum over a client each of some stores in memory.
func over(t testing.TB, stores []*memory.Store, o *quorum.Options) driver.Driver {
	t.Helper()
	var nodes []quorum.Node
	for i, s := range stores {
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("m", i), Driver: s.Driver()})
	}
	d, err := quorum.New(t.Context(), nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func stores(n int) []*memory.Store {
	var list []*memory.Store
	for range n {
		list = append(list, memory.NewStore())
	}
	return list
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			list := stores(n)
			drivertest.Run(t, drivertest.Store{Open: func(t testing.TB) driver.Driver {
				return over(t, list, &quorum.Options{MaxTTL: driver.MaxTTL})
			}})
		})
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	list := stores(3)
	drivertest.Concurrent(t, drivertest.Store{Open: func(t testing.TB) driver.Driver {
		return over(t, list, &quorum.Options{MaxTTL: driver.MaxTTL})
	}}, 1, 10)
}
