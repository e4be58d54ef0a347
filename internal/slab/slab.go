// Package slab keeps values in numbered slots, and lists of them. Unlike pointers, slots stay valid in a copy of the
// whole, and a copy is a few copies of slices.
package slab

// A Slot is the index of a value. Slots are reused.
type Slot int32

// None is no slot.
const None Slot = -1

// A Slab keeps values in slots. A freed slot has the zero value and is reused.
type Slab[T any] struct {
	All  []T     // by slot, free ones included
	free *[]Slot // nil before the first Drop
}

// Used returns the number of used slots.
func (s *Slab[T]) Used() int { return len(s.All) - len(s.freed()) }

func (s *Slab[T]) freed() []Slot {
	if s.free == nil {
		return nil
	}
	return *s.free
}

// At returns the value in a slot, where it stays until the next Take.
func (s *Slab[T]) At(i Slot) *T { return &s.All[i] }

// Find returns the first slot whose value satisfies such, or None. The values of free slots are zero.
func (s *Slab[T]) Find(such func(Slot, *T) bool) Slot {
	for i := range s.All {
		if such(Slot(i), &s.All[i]) {
			return Slot(i)
		}
	}
	return None
}

// Take puts a value into a free slot.
func (s *Slab[T]) Take(v T) Slot {
	if n := len(s.freed()); n > 0 {
		i := (*s.free)[n-1]
		*s.free = (*s.free)[:n-1]
		s.All[i] = v
		return i
	}
	s.All = append(s.All, v)
	return Slot(len(s.All) - 1)
}

// Drop frees a slot.
func (s *Slab[T]) Drop(i Slot) {
	var zero T
	s.All[i] = zero
	if s.free == nil {
		s.free = new([]Slot)
	}
	*s.free = append(*s.free, i)
}

// LowestFirst makes the free slots be reused in their order.
func (s *Slab[T]) LowestFirst() {
	free := s.freed()
	for i := range free { // there are few
		for k := i; k > 0 && free[k-1] < free[k]; k-- {
			free[k-1], free[k] = free[k], free[k-1]
		}
	}
}

// CopyFrom makes the slab a copy of another, and reuses its own memory.
func (s *Slab[T]) CopyFrom(o *Slab[T]) {
	s.All = append(s.All[:0], o.All...)
	if s.free == nil {
		s.free = new([]Slot)
	}
	*s.free = append((*s.free)[:0], o.freed()...)
}
