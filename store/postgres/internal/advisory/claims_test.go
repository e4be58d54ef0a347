package advisory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// A world is a few claims, and what can happen to them: entered is nil until a claim has entered.
type world struct {
	claims  *claims
	entered [4]*heldClaim
	homes   [2]*backend // the connections: the claims' keys are tried on one and the other in turn
}

func newWorld() *world { return &world{claims: newClaims(), homes: [2]*backend{{}, {}}} }

// The claims of a world: two that share a key, one that wants it alone, and one with another key.
var wants = [4]struct {
	id     string
	key    int64
	shared bool
}{{"reader", 1, true}, {"other reader", 1, true}, {"writer", 1, false}, {"elsewhere", 2, false}}

// An event is that a claim moves, or enters if it has not, or, without a claim, that the session on a connection ends.
type event struct {
	claim int
	next  state
}

var sessionEnds = []event{{claim: -1}, {claim: -2}}

func events() []event {
	list := slices.Clone(sessionEnds)
	for i := range wants {
		for next := claimWaiting; next <= claimOver; next++ {
			list = append(list, event{i, next})
		}
	}
	return list
}

// happen makes an event happen, and returns what of it is wrong.
func (w *world) happen(e event) error {
	if e.claim < 0 {
		return w.end(w.homes[-1-e.claim])
	}
	if w.entered[e.claim] == nil {
		want := wants[e.claim]
		w.entered[e.claim] = w.claims.add(want.id, want.key, want.shared)
		w.entered[e.claim].home = w.homes[e.claim%2]
		return w.check()
	}
	if err := w.move(w.entered[e.claim], e.next); err != nil {
		return err
	}
	return w.check()
}

func (w *world) move(c *heldClaim, next state) error {
	was, last := c.state, c.locks() && w.beside(c) == 0
	unlock := w.claims.move(c, next)
	moved, over := c.state != was, c.state == claimOver
	for says, wrong := range map[string]bool{
		"it is in a state that it was not moved to": moved && c.state != next,
		"that is no way":            moved && !slices.Contains(moves[was], next),
		"it cannot end":             next == claimOver && !over,
		"it came back from the end": was == claimOver && !over,
		"it says wrongly whether its key is to be unlocked": unlock != (last && !c.locks()),
		"nobody is told": moved && over && len(c.changed) == 0,
	} {
		if wrong {
			return fmt.Errorf("%s went from %d to %d: %s", c.id, was, c.state, says)
		}
	}
	return nil
}

// beside returns how many others have a claim's key.
func (w *world) beside(c *heldClaim) (n int) {
	for _, other := range w.entered {
		if other != nil && other != c && other.key == c.key && other.locks() {
			n++
		}
	}
	return n
}

func (w *world) end(home *backend) error {
	var had, waited []string
	keys := len(w.claims.keys)
	for _, c := range w.entered {
		if c != nil && c.locks() && c.home == home {
			had = append(had, c.id)
		} else if c != nil && c.state == claimWaiting {
			waited = append(waited, c.id)
		}
	}
	keys -= w.claims.locked[home]
	ids := w.claims.sessionOver(home)
	if slices.Sort(ids); !slices.Equal(ids, slices.Sorted(slices.Values(had))) {
		return fmt.Errorf("the session took %q with it; want %q", ids, had)
	}
	for _, id := range had {
		if !errors.Is(w.claims.gone(id), driver.ErrSession) {
			return fmt.Errorf("%s is told %w; want ErrSession", id, w.claims.gone(id))
		}
	}
	for _, id := range waited {
		if w.claims.byID[id] == nil || errors.Is(w.claims.gone(id), driver.ErrSession) {
			return fmt.Errorf("%s waited, and was lost with the session", id)
		}
	}
	if len(w.claims.keys) != keys || w.claims.locked[home] != 0 {
		return fmt.Errorf("the keys are %v after the session, and %d of them its own; want %d and 0",
			w.claims.keys, w.claims.locked[home], keys)
	}
	return w.check()
}

// check compares what the claims keep beside each other.
func (w *world) check() error {
	var line []*heldClaim
	standing, locked := map[string]*heldClaim{}, map[int64][]*heldClaim{}
	for _, c := range w.entered {
		if c == nil || c.state == claimOver {
			continue
		}
		standing[c.id] = c
		switch {
		case c.state == claimWaiting:
			line = append(line, c)
		case c.locks():
			locked[c.key] = append(locked[c.key], c)
		}
	}
	slices.SortFunc(line, func(a, b *heldClaim) int { return int(a.ticket - b.ticket) })
	switch {
	case !maps.Equal(w.claims.byID, standing):
		return fmt.Errorf("the claims are %v; want %v", w.claims.byID, standing)
	case !slices.Equal(w.claims.line, line):
		return fmt.Errorf("the line is %v; want %v", w.claims.line, line)
	case len(w.claims.keys) != len(locked):
		return fmt.Errorf("%d keys are locked; want %d", len(w.claims.keys), len(locked))
	}
	homes := map[*backend]int{}
	for key, holders := range locked {
		homes[holders[0].home]++
		if slices.ContainsFunc(holders, func(c *heldClaim) bool { return c.home != holders[0].home }) {
			return fmt.Errorf("key %d is held on two connections", key)
		}
		if k := w.claims.keys[key]; k == nil || k.holders != len(holders) {
			return fmt.Errorf("key %d is %+v; want %d holders", key, k, len(holders))
		}
		if len(holders) > 1 && slices.ContainsFunc(holders, func(c *heldClaim) bool { return !c.shared }) {
			return fmt.Errorf("%d hold key %d, and one of them wants it alone", len(holders), key)
		}
	}
	for _, home := range w.homes {
		if homes[home] != w.claims.locked[home] {
			return fmt.Errorf("a connection has %d keys; want %d", w.claims.locked[home], homes[home])
		}
	}
	return nil
}

// String tells worlds apart whose future differs.
func (w *world) String() (text string) {
	for _, c := range w.entered {
		if c == nil {
			text += "- "
		} else {
			text += fmt.Sprint(c.state, c.locks() && c.home == w.homes[0], " ")
		}
	}
	for _, c := range w.claims.line {
		text += c.id + ","
	}
	return text
}

// Whatever happens, in any order, to a few claims: a key has one holder or several that share it, what waits and what is
// locked agree with the states, the last one with a key has it unlocked, and each claim can end and does not come back.
func TestClaims(t *testing.T) {
	t.Parallel()
	replay := func(path []event) (w *world, err error) {
		w = newWorld()
		for _, e := range path {
			if err = w.happen(e); err != nil {
				return nil, fmt.Errorf("after %v: %w", path, err)
			}
		}
		return w, nil
	}
	seen, states := map[string]bool{}, map[state]bool{}
	for queue := [][]event{nil}; len(queue) > 0; queue = queue[1:] {
		for _, e := range events() {
			path := append(slices.Clip(queue[0]), e)
			w, err := replay(path)
			if err != nil {
				t.Fatal(err)
			}
			if seen[w.String()] {
				continue
			}
			seen[w.String()] = true
			queue = append(queue, path)
			for _, c := range w.entered {
				if c != nil {
					states[c.state] = true
				}
			}
		}
	}
	if len(states) != int(claimOver)+1 {
		t.Errorf("of the states only %v were reached", states)
	}
	t.Logf("%d worlds", len(seen))
}
