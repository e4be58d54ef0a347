//go:build unix

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stilelock/stile/driver"
)

// The models say what a name may do, one step after the other. A history is in order if each of its operations took place at
// one moment between its call and its return so that the steps are those of the model: Porcupine looks for such moments.
//
// A mutex is a writer without readers, and a permit a reader of a smaller capacity, so that one state serves all:
//
//	lock     all that is held, and this, fit the capacity; of a writer: a token larger than all before; of a reader: a token
//	         larger than those of all writers before
//	end      of a hold that is there: given back, run out, or forgotten
//
// A hold is two operations. The end of one that is known to have been given back lies within the call that did it. Every
// other end may have come at any moment from the earliest on, and may not have come at all, which is the same as after
// everything else. A call that brought no lease is left out: if it brought nothing about, it explains all that it explains
// otherwise. That a lock is refused is always in order.

// patience is how long the check of all names of a run may take.
const patience = 15 * time.Second

// forever is the return of what has none.
const forever = math.MaxInt64

// A step is the input of an operation.
type step struct {
	hold   int // which, of those of the name
	worker int // whose
	weight int64
	token  int64 // that of a lock whose token must be larger than others; otherwise 0
	ends   bool
}

// A line is the state of a name.
type line struct {
	inside  []step // the locks whose ends have not come, by hold
	top     int64  // the largest token so far
	written int64  // the largest token of a writer so far
}

// take returns the line after a step, if the step is in order.
func (n *line) take(s *step, capacity int64) (bool, *line) {
	next := &line{slices.Clone(n.inside), n.top, n.written}
	i, there := slices.BinarySearchFunc(n.inside, s.hold, func(o step, hold int) int { return o.hold - hold })
	if s.ends {
		if there {
			next.inside = slices.Delete(next.inside, i, i+1)
		}
		return there, next
	}
	sum := s.weight
	for _, o := range n.inside {
		sum += o.weight
	}
	floor := n.written
	if s.weight == driver.All {
		floor = n.top
	}
	if there || sum > capacity || s.token != 0 && s.token <= floor {
		return false, n
	}
	next.inside = slices.Insert(next.inside, i, *s)
	next.top = max(n.top, s.token)
	if s.weight == driver.All {
		next.written = max(n.written, s.token)
	}
	return true, next
}

// model is that of a name.
func model(capacity int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &line{} },
		Step: func(state, input, _ any) (bool, any) { return state.(*line).take(input.(*step), capacity) },
		Equal: func(a, b any) bool {
			x, y := a.(*line), b.(*line)
			return x.top == y.top && x.written == y.written && slices.Equal(x.inside, y.inside)
		},
	}
}

// operations are those of a name. Of a time in which a store may forget who holds, they say no more than it promises: what
// was held then may have ended since its beginning, and no token of then has to rise.
func operations(grants []*grant, fences bool, lax []span) (list []porcupine.Operation) {
	for i, g := range grants {
		lock := &step{hold: i, worker: g.Worker, weight: g.Weight}
		if fences {
			lock.token = g.Token
		}
		from, to := g.earliest(), time.Duration(forever)
		if g.fate == freed {
			to = max(g.done, from)
		}
		for _, s := range lax {
			if g.call <= s.end && s.begin <= g.Begin {
				lock.token = 0
			}
			if g.call <= s.end && s.begin <= from {
				from = max(g.call, s.begin)
			}
		}
		list = append(list,
			porcupine.Operation{ClientId: i, Input: lock, Call: int64(g.call), Return: int64(g.Begin)},
			porcupine.Operation{ClientId: i, Input: &step{hold: i, worker: g.Worker, ends: true}, Call: int64(from), Return: int64(to)})
	}
	return list
}

// An operated is what was done to a name of a capacity.
type operated struct {
	list     []porcupine.Operation
	capacity int64
}

// order holds what the workers believed to the models, name by name.
func (o *outcome) order(grants []*grant, names map[string]int64, lax []span) {
	o.orderWithin(patience, grants, names, lax)
}

func (o *outcome) orderWithin(patience time.Duration, grants []*grant, names map[string]int64, lax []span) {
	o.histories = map[string]operated{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		of := slices.DeleteFunc(slices.Clone(grants), func(g *grant) bool { return g.Name != name })
		list := operations(of, o.fences && names[name] == driver.All, lax)
		o.checked += len(list)
		o.histories[name] = operated{list, names[name]}
		switch porcupine.CheckOperationsTimeout(model(names[name]), list, patience/time.Duration(len(names))) {
		case porcupine.Illegal:
			o.unordered = append(o.unordered, name)
			o.wrong = append(o.wrong, fmt.Sprintf("%s: its %d operations are in no order that a lock allows", name, len(list)))
		case porcupine.Unknown:
			o.inconclusive = append(o.inconclusive,
				fmt.Sprintf("%s: whether its %d operations are in order was not found out within %v", name, len(list), patience))
		}
	}
}
