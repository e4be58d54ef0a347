// Package agenda decides for many names what package engine leaves open, which decides for one: which of them is told the
// time next, and which of their claims are renewed by one request. It is as pure as package engine.
package agenda

import (
	"time"

	"github.com/stilelock/stile/internal/engine"
)

// An Agenda is which of many names want to be told the time, and when. It is a heap.
type Agenda[T any, P Dated[T]] struct{ items []P }

// Dated is a pointer to what may stand on an agenda.
type Dated[T any] interface {
	*T
	Due() *Item
}

// An Item is when something is due, and where it stands on its agenda.
type Item struct {
	due   engine.Time
	place int // from 1; 0 if it is not there
}

// At returns when it is due, or Never if it is not on the agenda.
func (i *Item) At() engine.Time {
	if i.place == 0 {
		return engine.Never
	}
	return i.due
}

// Set has something due then.
func (a *Agenda[T, P]) Set(p P, due engine.Time) {
	i := p.Due()
	i.due = due
	if i.place == 0 {
		a.items = append(a.items, p)
		i.place = len(a.items)
	}
	a.up(p)
	a.down(p)
}

// Remove takes it off the agenda, if it is there.
func (a *Agenda[T, P]) Remove(p P) {
	i := p.Due()
	if i.place == 0 {
		return
	}
	at := i.place
	last := a.items[len(a.items)-1]
	a.items[len(a.items)-1] = nil
	a.items = a.items[:len(a.items)-1]
	i.place = 0
	if last != p {
		a.put(last, at)
		a.up(last)
		a.down(last)
	}
}

// Next is when the first is due, or Never.
func (a *Agenda[T, P]) Next() engine.Time {
	if len(a.items) == 0 {
		return engine.Never
	}
	return a.items[0].Due().due
}

// First returns the item that is due first, or nil if the agenda is empty.
func (a *Agenda[T, P]) First() P {
	if len(a.items) == 0 {
		return nil
	}
	return a.items[0]
}

func (a *Agenda[T, P]) put(p P, place int) {
	a.items[place-1] = p
	p.Due().place = place
}

func (a *Agenda[T, P]) up(p P) {
	for i := p.Due(); i.place > 1; {
		above := a.items[i.place/2-1]
		if above.Due().due <= i.due {
			return
		}
		at := i.place
		a.put(p, above.Due().place)
		a.put(above, at)
	}
}

func (a *Agenda[T, P]) down(p P) {
	for i := p.Due(); 2*i.place <= len(a.items); {
		below := a.items[2*i.place-1]
		if 2*i.place < len(a.items) && a.items[2*i.place].Due().due < below.Due().due {
			below = a.items[2*i.place]
		}
		if below.Due().due >= i.due {
			return
		}
		at := i.place
		a.put(p, below.Due().place)
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
