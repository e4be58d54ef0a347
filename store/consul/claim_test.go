package consul

import (
	"context"
	"testing"
	"time"
)

// invariants are true of a claim in every state, after any transitions.
var invariants = []struct {
	sentence string
	holds    func(lc *localClaim) bool
}{
	{
		"the session of a claim that is unsure or lost is spoiled",
		func(lc *localClaim) bool {
			return lc.session.spoiled || lc.state != claimUnsure && lc.state != claimLost
		},
	},
	{
		"a claim waits for a key only while it waits",
		func(lc *localClaim) bool { return lc.wait == nil || lc.state == claimWaiting },
	},
	{
		"a claim's own key is watched only while it holds",
		func(lc *localClaim) bool { return lc.watch == nil && lc.stop == nil || lc.state == claimHolding },
	},
	{
		"a claim counts on the lock's key only while it holds, and is exclusive",
		func(lc *localClaim) bool { return !lc.hasLockKeyLocked() || lc.state == claimHolding && lc.exclusive },
	},
}

// dress gives a claim all that it may have in its state, so that leaving the state must take something away.
func (lc *localClaim) dress() {
	switch lc.state {
	case claimWaiting:
		lc.wait = &target{key: "before"}
	case claimHolding:
		_, lc.stop = context.WithCancel(context.Background())
		lc.watch = time.AfterFunc(time.Hour, func() {})
	}
}

// A world is a set of facts about a claim.
type world struct {
	state              state
	spoiled, exclusive bool
}

// step moves a claim, or checks that becomeLocked refuses to, and checks the invariants.
func (w world) step(t *testing.T, next state) world {
	t.Helper()
	lc := &localClaim{state: w.state, exclusive: w.exclusive, session: &session{spoiled: w.spoiled}}
	lc.dress()
	moved := lc.becomeLocked(next)
	for _, invariant := range invariants {
		if !invariant.holds(lc) {
			t.Errorf("from %+v to %d: not so: %s", w, next, invariant.sentence)
		}
	}
	switch {
	case moved != (lc.state == next):
		t.Errorf("from %+v to %d: it says %v, and is in %d", w, next, moved, lc.state)
	case !moved && lc.state != w.state:
		t.Errorf("from %+v to %d: refused, and yet it is in %d", w, next, lc.state)
	case w.state.over() && lc.state != w.state:
		t.Errorf("from the end %+v to %d", w, lc.state)
	case w.spoiled && !lc.session.spoiled:
		t.Errorf("from %+v to %d: the session serves another claim again", w, next)
	case !w.state.over() && next.over() && !moved:
		t.Errorf("from %+v the end %d cannot be reached", w, next)
	}
	lc.unwatchLocked()
	return world{lc.state, lc.session.spoiled, w.exclusive}
}

// For all transitions in any order: the invariants are true, a spoiled session stays spoiled, and an end can be reached from
// every state and is final.
func TestStates(t *testing.T) {
	t.Parallel()
	seen := map[world]bool{}
	var walk func(w world)
	walk = func(w world) {
		if seen[w] {
			return
		}
		seen[w] = true
		for next := claimAsking; next <= claimLost; next++ {
			walk(w.step(t, next))
		}
	}
	for _, exclusive := range []bool{false, true} {
		walk(world{state: claimAsking, exclusive: exclusive})
		walk(world{state: claimUnsure, spoiled: true, exclusive: exclusive}) // adopted from another client
		for s := claimAsking; s <= claimLost; s++ {
			if !seen[world{s, true, exclusive}] && s != claimAsking {
				t.Errorf("nothing leads to %d with a spoiled session", s)
			}
		}
	}
	for _, s := range []state{claimUnsure, claimLost} {
		if seen[world{state: s}] {
			t.Errorf("a claim is in %d, and its session is not spoiled", s)
		}
	}
}
