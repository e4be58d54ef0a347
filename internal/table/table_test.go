package table

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
)

type item struct{ name string }

func (i *item) Name() string { return i.name }

func (i *item) Hash() uint64 { return hash(i.name) }

var seed = maphash.MakeSeed()

func hash(name string) uint64 { return maphash.String(seed, name) }

// TestTableIsAMap does the same to a table and to a map, at random, and compares them after each step. Few names make
// many collisions, and the number of values goes up and down.
func TestTableIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table Table[item, *item]
	want := map[string]*item{}
	for step := range 50_000 {
		names := 1 + 200*(step/1000%5) // how many there are in this while
		name := strconv.Itoa(r.IntN(names))
		if has := want[name]; has == nil {
			want[name] = &item{name}
			table.Add(want[name], hash(name))
		} else if r.IntN(2) == 0 || len(want) > names {
			delete(want, name)
			table.Remove(has)
		}
		for _, look := range []string{name, strconv.Itoa(r.IntN(1000))} {
			if got := table.Get(look, hash(look)); got != want[look] {
				t.Fatalf("step %d: Get(%q) = %v, want %v", step, look, got, want[look])
			}
		}
		if table.Len() != len(want) {
			t.Fatalf("step %d: %d values, want %d", step, table.Len(), len(want))
		}
		if step%100 == 0 {
			compare(t, step, &table, want)
		}
	}
}

// compare sees that a table has the values of a map, and does not stay large when few are left.
func compare(t *testing.T, step int, table *Table[item, *item], want map[string]*item) {
	t.Helper()
	all := table.All()
	for _, got := range all {
		if want[got.name] != got {
			t.Fatalf("step %d: %q is in the table, and should not be", step, got.name)
		}
	}
	if len(all) != len(want) {
		t.Fatalf("step %d: All has %d values, want %d", step, len(all), len(want))
	}
	if size := len(table.slots); size > max(least, 16*len(want)) || 4*len(want) > 3*size {
		t.Fatalf("step %d: %d slots for %d values", step, size, len(want))
	}
}
