package explore

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// Simulate takes a number of random steps in a world, and then lets it come to rest. It returns the first violation with its
// shortened path, in the engine's words, or nil.
func Simulate(conf *Config, seed uint64, steps int) error {
	random := rand.New(rand.NewPCG(seed, 0))
	w := New(conf)
	var path []Event
	var events []Event
	for range steps {
		events = w.Events(events[:0])
		if len(events) == 0 {
			break
		}
		ev := events[random.IntN(len(events))]
		if ev.Kind.fault() && random.IntN(4) > 0 {
			continue // otherwise all faults would come first
		}
		path = append(path, ev)
		if w.Step(ev) != nil {
			return errors.New(Play(conf, shrink(conf, path, false), false))
		}
	}
	if quiet(conf, w) != nil {
		return errors.New(Play(conf, shrink(conf, path, true), true))
	}
	return nil
}

func quiet(conf *Config, w *World) error {
	k := &worker{s: &search{conf: conf, states: newSet()}, gentle: &World{enc: &coder{}}}
	return k.calmDown(w)
}

// shrink leaves out the events of a path that the error does not need.
func shrink(conf *Config, path []Event, calm bool) []Event {
	for size := len(path) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(path); {
			less := slices.Concat(path[:at], path[at+size:])
			if played, wrong := replay(conf, less, calm); wrong {
				path, shorter = played, true
			} else {
				at += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return path
}

// replay plays the possible events of a path, and returns them, and whether they lead to a violation.
func replay(conf *Config, path []Event, calm bool) (played []Event, wrong bool) {
	w := New(conf)
	var events []Event
	for _, ev := range path {
		events = w.Events(events[:0])
		if !slices.Contains(events, ev) {
			continue
		}
		played = append(played, ev)
		if w.Step(ev) != nil {
			return played, !calm
		}
	}
	return played, calm && quiet(conf, w) != nil
}
