// Package agenda decides for many names what package engine leaves open, which decides for one: which of them is told the
// time next, and which of their claims are renewed by one request. It is as pure as package engine.
package agenda

import (
	"time"

	"github.com/stilelock/stile/internal/engine"
)

// An Agenda is which of many names want to be told the time, and when. It is a heap.
type Agenda[T any] struct{ items []*Item[T] }

// An Item is one name on an agenda.
type Item[T any] struct {
	Value T
	due   engine.Time
	place int // in items, from 1; 0 if it is not there
}

// Due is when the item is due, or Never if it is not on the agenda.
func (i *Item[T]) Due() engine.Time {
	if i.place == 0 {
		return engine.Never
	}
	return i.due
}

// Set puts an item where its due says.
func (a *Agenda[T]) Set(i *Item[T], due engine.Time) {
	i.due = due
	if i.place == 0 {
		a.items = append(a.items, i)
		i.place = len(a.items)
	}
	a.up(i)
	a.down(i)
}

// Remove takes an item off the agenda, if it is there.
func (a *Agenda[T]) Remove(i *Item[T]) {
	if i.place == 0 {
		return
	}
	at := i.place
	last := a.items[len(a.items)-1]
	a.items[len(a.items)-1] = nil
	a.items = a.items[:len(a.items)-1]
	i.place = 0
	if last != i {
		a.put(last, at)
		a.up(last)
		a.down(last)
	}
}

// Next is when the first item is due, or Never.
func (a *Agenda[T]) Next() engine.Time {
	if len(a.items) == 0 {
		return engine.Never
	}
	return a.items[0].due
}

// First returns the item that is due first, or nil if the agenda is empty.
func (a *Agenda[T]) First() *Item[T] {
	if len(a.items) == 0 {
		return nil
	}
	return a.items[0]
}

func (a *Agenda[T]) put(i *Item[T], place int) {
	a.items[place-1] = i
	i.place = place
}

func (a *Agenda[T]) up(i *Item[T]) {
	for i.place > 1 {
		above := a.items[i.place/2-1]
		if above.due <= i.due {
			return
		}
		at := i.place
		a.put(i, above.place)
		a.put(above, at)
	}
}

func (a *Agenda[T]) down(i *Item[T]) {
	for 2*i.place <= len(a.items) {
		below := a.items[2*i.place-1]
		if 2*i.place < len(a.items) && a.items[2*i.place].due < below.due {
			below = a.items[2*i.place]
		}
		if below.due >= i.due {
			return
		}
		at := i.place
		a.put(i, below.place)
		a.put(below, at)
	}
}

// A RenewalKind is renewals that may share a batch: they have one ttl, since they share a time limit, and claims whose
// last renewal failed are tried apart from those whose did not.
type RenewalKind struct {
	TTL     time.Duration
	Failing bool
}

// Batches sorts renewals into batches of at most so many of one kind, in order. It returns their indices.
func Batches(kinds []RenewalKind, most int) [][]int {
	open := map[RenewalKind]int{}
	var batches [][]int
	for i, kind := range kinds {
		at, ok := open[kind]
		if !ok || len(batches[at]) == most {
			at = len(batches)
			open[kind] = at
			batches = append(batches, nil)
		}
		batches[at] = append(batches[at], i)
	}
	return batches
}
