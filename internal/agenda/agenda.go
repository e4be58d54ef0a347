// Package agenda decides across names what package engine decides for one: which name gets the time next, and which claims
// one request renews. It is as pure as package engine.
package agenda

import (
	"time"

	"github.com/stilelock/stile/internal/engine"
)

// An Agenda is a heap of the names that want the time, by when they want it.
type Agenda[T any, P Dated[T]] struct{ items []P }

// Dated is a pointer to a value that may stand on an agenda.
type Dated[T any] interface {
	*T
	Due() *Item
}

// An Item has the due time of a value, and its place on the agenda.
type Item struct {
	due   engine.Time
	place int // from 1; 0 means not on the agenda
}

// At returns the due time, or Never if the value is not on the agenda.
func (i *Item) At() engine.Time {
	if i.place == 0 {
		return engine.Never
	}
	return i.due
}

// Set sets the due time of a value.
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

// Remove takes a value off the agenda, if it is there.
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

// Next returns the earliest due time, or Never.
func (a *Agenda[T, P]) Next() engine.Time {
	if len(a.items) == 0 {
		return engine.Never
	}
	return a.items[0].Due().due
}

// First returns the value with the earliest due time, or nil if the agenda is empty.
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

// A RenewalKind is the part of a renewal that its batch must share: the ttl, since a batch has one time limit, and whether
// the last renewal failed, since claims that failed are tried apart from the others.
type RenewalKind struct {
	TTL     time.Duration
	Failing bool
}

// Batches sorts renewals into batches of one kind and at most most renewals, in order. It returns their indices.
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
