package shard_test

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/shard"
)

// memories are stores in memory that clients share, by their names.
type memories map[string]*memory.Store

// stores returns stores with these names, each with a new driver.
func (m memories) stores(names ...string) []shard.Store {
	var list []shard.Store
	for _, name := range names {
		if m[name] == nil {
			m[name] = memory.NewStore()
		}
		list = append(list, shard.Store{Name: name, Driver: m[name].Driver()})
	}
	return list
}

// without returns the list with some stores' drivers left out, since another list has them.
func without(list []shard.Store, names ...string) []shard.Store {
	for i := range list {
		for _, name := range names {
			if list[i].Name == name {
				list[i].Driver = nil
			}
		}
	}
	return list
}

func open(t testing.TB, stores []shard.Store, o *shard.Options) driver.Driver {
	t.Helper()
	d, err := shard.New(stores, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestContract(t *testing.T) {
	t.Parallel()
	m := memories{}
	m.stores("a", "b", "c")
	drivertest.Run(t, drivertest.Store{
		Open:    func(t testing.TB) driver.Driver { return open(t, m.stores("a", "b", "c"), nil) },
		Several: drive.Several(3, 0, threeStores, together),
	})
}

// threeStores makes three stores in memory, and returns a function that opens a client of each.
func threeStores(testing.TB) func(i int) driver.Driver {
	list := []*memory.Store{memory.NewStore(), memory.NewStore(), memory.NewStore()}
	return func(i int) driver.Driver { return list[i].Driver() }
}

func together(t testing.TB, servers []driver.Driver) driver.Driver {
	var list []shard.Store
	for i, d := range servers {
		list = append(list, shard.Store{Name: fmt.Sprint("s", i), Driver: d})
	}
	return open(t, list, nil)
}

func TestModel(t *testing.T) {
	t.Parallel()
	m := memories{}
	m.stores("a", "b", "c")
	drivertest.Model(t, drivertest.Store{Open: func(t testing.TB) driver.Driver { return open(t, m.stores("a", "b", "c"), nil) }}, 1, 2000)
}

// moving returns a function that opens clients in the middle of a move from stores a and b to b and c.
func moving(m memories) func(t testing.TB) driver.Driver {
	m.stores("a", "b", "c")
	return func(t testing.TB) driver.Driver {
		return open(t, m.stores("b", "c"), &shard.Options{Previous: without(m.stores("a", "b"), "b")})
	}
}

func TestContractInMove(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: moving(memories{})})
}

// An ordering driver declares order. This is true if all clients know both lists, for claims that stay with their first
// client.
type ordering struct {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
}

func (o *ordering) Traits() driver.Traits {
	t := o.Driver.Traits()
	t.Ordered, t.InSession = true, true
	return t
}

func TestContractInMoveOfAll(t *testing.T) {
	t.Parallel()
	open := moving(memories{})
	drivertest.Run(t, drivertest.Store{Open: func(t testing.TB) driver.Driver {
		d := open(t)
		return &ordering{d, d.(driver.Lister), d.(driver.Watcher), d.(driver.Breaker), d.(driver.Alerter)}
	}})
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	m := memories{}
	m.stores("a", "b", "c")
	s := drivertest.Store{Open: func(t testing.TB) driver.Driver { return open(t, m.stores("a", "b", "c"), nil) }}
	drivertest.Concurrent(t, s, 1, 10)
}
