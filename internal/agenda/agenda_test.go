package agenda

import (
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/engine"
)

type dated struct {
	value int
	item  Item
}

func (d *dated) Due() *Item { return &d.item }

// TestAgendaInAllSmallWorlds does all sequences of setting, moving and removing three items, and compares the agenda with
// a plain map after each step.
func TestAgendaInAllSmallWorlds(t *testing.T) {
	const items, dues, depth = 4, 3, 5
	steps := 0
	var walk func(path []int)
	walk = func(path []int) {
		var (
			a    Agenda[dated, *dated]
			all  [items]dated
			want = map[int]engine.Time{}
		)
		for _, op := range path { // op is an item and a due, or a due of 0 to remove it
			i, due := op/(dues+1), engine.Time(op%(dues+1))
			if due == 0 {
				a.Remove(&all[i])
				delete(want, i)
				continue
			}
			all[i].value = i
			a.Set(&all[i], due)
			want[i] = due
		}
		steps++
		var got []engine.Time
		for next := a.Next(); next != engine.Never; next = a.Next() {
			first := a.First()
			if first.Due().At() != next || want[first.value] != next {
				t.Fatalf("after %v: item %d is first, due %d; want %d", path, first.value, first.Due().At(), want[first.value])
			}
			got = append(got, next)
			delete(want, first.value)
			a.Remove(first)
		}
		if !slices.IsSorted(got) || len(want) > 0 || a.First() != nil {
			t.Fatalf("after %v: %v came, and %v did not", path, got, want)
		}
		if len(path) < depth {
			for op := range items * (dues + 1) {
				walk(append(path[:len(path):len(path)], op))
			}
		}
	}
	walk(nil)
	if steps < 1_000_000 {
		t.Errorf("%d sequences; want all", steps)
	}
}

// TestBatches puts all small lists of renewals into batches of at most two: each is in one batch, with its kind, and no
// batch could have taken more.
func TestBatches(t *testing.T) {
	kinds := []RenewalKind{{time.Second, false}, {time.Second, true}, {2 * time.Second, false}}
	var walk func(list []RenewalKind)
	walk = func(list []RenewalKind) {
		seen := make([]int, len(list))
		partial := map[RenewalKind]int{}
		for _, b := range Batches(list, 2) {
			if len(b) == 0 || len(b) > 2 || !slices.IsSorted(b) {
				t.Fatalf("%v: batch %v", list, b)
			}
			for _, i := range b {
				seen[i]++
				if list[i] != list[b[0]] {
					t.Fatalf("%v: batch %v mixes kinds", list, b)
				}
			}
			if len(b) < 2 {
				partial[list[b[0]]]++
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("%v: renewal %d is in %d batches", list, i, n)
			}
		}
		for kind, n := range partial {
			if n > 1 {
				t.Fatalf("%v: %d batches of %v have room", list, n, kind)
			}
		}
		if len(list) < 7 {
			for _, k := range kinds {
				walk(append(list[:len(list):len(list)], k))
			}
		}
	}
	walk(nil)
}
