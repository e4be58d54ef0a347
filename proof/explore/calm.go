package explore

import (
	"fmt"
	"slices"

	"github.com/stilelock/stile/internal/engine"
)

// calmSteps bounds a calm path; no calm path takes so many steps.
const calmSteps = 400

// calmDown follows the calm path from a world, and returns the first violation. The worker's path has the steps before it.
// The path stops at a state whose own calm path has ended well. States are marked only at the end of a path, so a path that
// runs in a circle does not count as a good one.
func (k *worker) calmDown(from *World) error {
	w := from
	for step := 0; ; step++ {
		h := w.Hash()
		if k.s.states.has(h, rested) {
			break
		}
		if slices.Contains(k.path, h) {
			return fmt.Errorf("it goes round for ever")
		}
		k.path = append(k.path, h)
		if step == calmSteps {
			return fmt.Errorf("it does not come to rest")
		}
		k.calmEvents = w.Events(k.calmEvents[:0])
		i, err := w.calm(k.calmEvents)
		if err != nil {
			return err
		}
		if i < 0 {
			break
		}
		if w == from {
			w = k.gentle
			w.CopyFrom(from)
			w.trace = from.trace
		}
		if err := w.Step(k.calmEvents[i]); err != nil {
			return err
		}
	}
	for _, h := range k.path {
		k.s.states.mark(h, rested)
	}
	return nil
}

// calm returns the index of the next event if there are no more faults, nobody wants anything new, and every holder
// releases; -1 if nothing is left to do.
func (w *World) calm(events []Event) (int, error) {
	best, moves := -1, -1
	for i, e := range events {
		switch e.Kind {
		case advance:
			moves = i
		case resume, deliver, apply, answer, limit, tick, doRelease:
			if best < 0 || urgency(e.Kind) < urgency(events[best].Kind) {
				best = i
			}
		}
	}
	switch {
	case best >= 0:
		return best, nil
	case w.rests():
		return -1, w.restless()
	case moves >= 0:
		return moves, w.untimely()
	default:
		return -1, w.restless()
	}
}

// urgency orders the events of a calm path: the lowest comes first.
func urgency(k Kind) int {
	switch k {
	case resume:
		return 0
	case deliver:
		return 1
	case answer:
		return 2
	case apply:
		return 3
	case tick:
		return 4
	case limit:
		return 5
	default:
		return 6
	}
}

// rests reports whether no work is left.
func (w *World) rests() bool {
	for i := range w.clients {
		c := &w.clients[i]
		if c.e.Due() != engine.Never || len(c.reqs) > 0 {
			return false
		}
	}
	return len(w.store.Entries) == 0
}

// restless returns an error if a world without further events is not at rest.
func (w *World) restless() error {
	for i := range w.clients {
		c := &w.clients[i]
		for g := range c.gs {
			if s := c.gs[g].state; s != idle {
				return fmt.Errorf("client %d: goroutine %d is never answered", i, g)
			}
		}
		if !c.e.Idle() || c.e.Clearing() || c.e.Due() != engine.Never {
			return fmt.Errorf("client %d does not come to rest", i)
		}
	}
	if len(w.store.Entries) > 0 {
		return fmt.Errorf("%s", w.storeString())
	}
	return nil
}

// untimely returns an error if time moves during a wait: without faults, all waits must end at once.
func (w *World) untimely() error {
	if w.faults < w.conf.Faults || w.mute || w.conf.Acts&(Close|Detach) != 0 || w.conf.Keep > 0 || w.conf.Reclaim ||
		w.conf.Linger > 0 && len(w.clients) > 1 {
		return nil
	}
	for i := range w.clients {
		for g := range w.clients[i].gs {
			if s := w.clients[i].gs[g].state; s == waiting || s == releasing {
				return fmt.Errorf("client %d: goroutine %d waits for no reason while time moves", i, g)
			}
		}
	}
	return nil
}
