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

// The models say which steps a name allows, one after the other. A history is in order if each of its operations can have
// happened at one moment between its call and its return, so that the model allows the steps in this order. Porcupine looks
// for such moments.
//
// A mutex is a writer without readers, and a permit is a reader of a smaller capacity. So one state serves all:
//
//	lock     all that is held, and this, fit the capacity; of a writer: a token larger than all before; of a reader: a token
//	         larger than all writers' tokens before
//	end      of a hold that is there: given back, run out, or forgotten
//
// A hold is two operations, the lock and its end. If the lock is known to have been released, its end lies within the
// release. Every other end may have happened at any moment from the earliest on; it may also not have happened at all,
// which is the same as after everything else. A call without a lease is left out: a history that is in order without it is
// in order with it. A refused lock is always in order.

// patience bounds the check of all names of a run.
const patience = 15 * time.Second

// forever is the return of an operation that has none.
const forever = math.MaxInt64

// A step is the input of an operation.
type step struct {
	hold   int // the hold's number within the name
	worker int // the worker's number
	weight int64
	token  int64 // the token of a lock if it must be larger than earlier ones; otherwise 0
	ends   bool
}

// A line is the state of a name.
type line struct {
	inside  []step // the locks that have not ended, by hold
	top     int64  // the largest token so far
	written int64  // the largest token of a writer so far
}

// take returns the state after a step, if the model allows the step.
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

// model returns the model of a name.
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

// operations returns the operations of a name. In a span in which the store may forget who holds, they only say what the
// store promises: a hold of then may have ended from the beginning of the span on, and no token of then must rise.
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

// An operated is the history of a name, and its capacity.
type operated struct {
	list     []porcupine.Operation
	capacity int64
}

// order compares the workers' reports with the models, name by name.
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
