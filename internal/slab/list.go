package slab

import "iter"

// Links are a value's links in a list. A value in no list must have [Unlinked].
type Links struct{ Prev, Next Slot }

// Unlinked are the links of a value alone in its list, or in no list.
var Unlinked = Links{None, None}

// A List is an ordered list of a slab's values.
type List struct {
	First, Last Slot
	Len         int32
}

// Empty is an empty list.
var Empty = List{None, None, 0}

// Linked is a pointer to a value that may be in a list.
type Linked[T any] interface {
	*T
	Links() *Links
}

// Each yields the values of a list, from the first to the last. The caller may remove the current one.
func Each[T any, P Linked[T]](s *Slab[T], l *List) iter.Seq2[Slot, *T] {
	return func(yield func(Slot, *T) bool) {
		for i, left := l.First, l.Len; left > 0; left-- {
			at := s.At(i)
			next := P(at).Links().Next
			if !yield(i, at) {
				return
			}
			i = next
		}
	}
}

// PushBack puts a value at the end of a list.
func PushBack[T any, P Linked[T]](s *Slab[T], l *List, i Slot) {
	*P(s.At(i)).Links() = Links{Prev: l.Last, Next: None}
	if l.Last == None {
		l.First = i
	} else {
		P(s.At(l.Last)).Links().Next = i
	}
	l.Last = i
	l.Len++
}

// PushFront puts a value at the beginning of a list.
func PushFront[T any, P Linked[T]](s *Slab[T], l *List, i Slot) {
	*P(s.At(i)).Links() = Links{Prev: None, Next: l.First}
	if l.First == None {
		l.Last = i
	} else {
		P(s.At(l.First)).Links().Prev = i
	}
	l.First = i
	l.Len++
}

// Remove takes a value out of its list.
func Remove[T any, P Linked[T]](s *Slab[T], l *List, i Slot) {
	at := P(s.At(i)).Links()
	if at.Prev == None {
		l.First = at.Next
	} else {
		P(s.At(at.Prev)).Links().Next = at.Next
	}
	if at.Next == None {
		l.Last = at.Prev
	} else {
		P(s.At(at.Next)).Links().Prev = at.Prev
	}
	*at = Unlinked
	l.Len--
}
