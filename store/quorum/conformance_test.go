package quorum_test

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// over opens a quorum over one new client of each of these stores in memory.
func over(t testing.TB, stores []*memory.Store, o *quorum.Options) driver.Driver {
	t.Helper()
	var members []driver.Driver
	for _, s := range stores {
		members = append(members, s.Driver())
	}
	return quorumOf(t, members, o)
}

func quorumOf(t testing.TB, members []driver.Driver, o *quorum.Options) driver.Driver {
	t.Helper()
	var nodes []quorum.Node
	for i, d := range members {
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("m", i), Driver: d})
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

// several makes quorums of which some members may be out of reach.
func several(n int) func(testing.TB) *drivertest.Several {
	servers := func(testing.TB) func(int) driver.Driver {
		list := stores(n)
		return func(i int) driver.Driver { return list[i].Driver() }
	}
	return drive.Several(n, (n-1)/2, servers, func(t testing.TB, members []driver.Driver) driver.Driver {
		return quorumOf(t, members, &quorum.Options{MaxTTL: driver.MaxTTL})
	})
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			list := stores(n)
			drivertest.Run(t, drivertest.Store{
				Open:    func(t testing.TB) driver.Driver { return over(t, list, &quorum.Options{MaxTTL: driver.MaxTTL}) },
				Several: several(n), Halfway: true,
			})
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
