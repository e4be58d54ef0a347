package slab

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct {
	links Links
	value int
}

func (x *item) Links() *Links { return &x.links }

// TestListIsASlice does the same to lists and to slices, at random.
func TestListIsASlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Slab[item]
	lists, want := [2]List{Empty, Empty}, [2][]int{}
	where := map[Slot]int{} // which list
	for step := range 20_000 {
		which := r.IntN(2)
		l := &lists[which]
		switch n := len(want[which]); {
		case n > 0 && r.IntN(2) == 0:
			at := r.IntN(n)
			i := l.First
			for range at {
				i = s.At(i).links.Next
			}
			if where[i] != which {
				t.Fatalf("slot %d is in list %d, and was put into %d", i, which, where[i])
			}
			Remove(&s, l, i)
			s.Drop(i)
			want[which] = slices.Delete(want[which], at, at+1)
		case r.IntN(2) == 0:
			i := s.Take(item{value: step})
			where[i] = which
			PushBack(&s, l, i)
			want[which] = append(want[which], step)
		default:
			i := s.Take(item{value: step})
			where[i] = which
			PushFront(&s, l, i)
			want[which] = slices.Insert(want[which], 0, step)
		}
		var got, back []int
		for i := l.First; i != None; i = s.At(i).links.Next {
			got = append(got, s.At(i).value)
		}
		for i := l.Last; i != None; i = s.At(i).links.Prev {
			back = append(back, s.At(i).value)
		}
		slices.Reverse(back)
		if int(l.Len) != len(got) || !slices.Equal(got, want[which]) || !slices.Equal(back, want[which]) {
			t.Fatalf("step %d: the list is %v, and backwards %v, and should be %v", step, got, back, want[which])
		}
		if s.Used() != len(want[0])+len(want[1]) {
			t.Fatalf("step %d: %d slots are used", step, s.Used())
		}
	}
}

func TestLowestFirst(t *testing.T) {
	var s Slab[int]
	for i := range 5 {
		s.Take(i)
	}
	for _, i := range []Slot{3, 0, 4} {
		s.Drop(i)
	}
	s.LowestFirst()
	for _, want := range []Slot{0, 3, 4, 5} {
		if got := s.Take(7); got != want {
			t.Errorf("slot %d was taken before slot %d", got, want)
		}
	}
}

func TestEachWhileItIsRemoved(t *testing.T) {
	for name, removed := range map[string]func(value int) bool{
		"none":  func(int) bool { return false },
		"first": func(v int) bool { return v == 0 },
		"last":  func(v int) bool { return v == 3 },
		"odd":   func(v int) bool { return v%2 == 1 },
		"all":   func(int) bool { return true },
	} {
		var s Slab[item]
		l := Empty
		for v := range 4 {
			PushBack(&s, &l, s.Take(item{value: v}))
		}
		var got, left []int
		for i, x := range Each(&s, &l) {
			got = append(got, x.value)
			if removed(x.value) {
				Remove(&s, &l, i)
				s.Drop(i)
			}
		}
		if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("%s removed: ranged over %v; want %v", name, got, want)
		}
		for i, x := range Each(&s, &l) {
			if found := s.Find(func(_ Slot, y *item) bool { return y == x }); found != i {
				t.Errorf("%s removed: %d is found in slot %d; want %d", name, x.value, found, i)
			}
			left = append(left, x.value)
		}
		if want := slices.DeleteFunc([]int{0, 1, 2, 3}, removed); !slices.Equal(left, want) {
			t.Errorf("%s removed: %v are left; want %v", name, left, want)
		}
	}
	var free List // of a freed slot
	for i := range Each(&Slab[item]{}, &free) {
		t.Errorf("slot %d is in the list of a freed slot", i)
	}
}
