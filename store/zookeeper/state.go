package zookeeper

import (
	"slices"

	"github.com/stilelock/stile/driver"
)

// A state is a step on a claim's way; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // its node was asked for; its place is unknown
	claimWaiting              // it waits, as of the last read
	claimHolding              // it holds, as of the last read
	claimKept                 // it has left, and its node stays until its time is over
	claimSpent                // its node was kept, and must go now
	claimEnding               // its lease ran out, or it was not let in: its node must go
	claimLeaving              // its client releases it, and does not know yet that it is gone
	claimOver                 // it is certainly gone, or its session is: nothing is left to do
)

// moves are the transitions between states.
var moves = map[state][]state{
	claimAsking:  {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimWaiting: {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimHolding: {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimEnding:  {claimKept, claimLeaving, claimOver},
	claimLeaving: {claimKept, claimOver},
	claimKept:    {claimSpent, claimOver},
	claimSpent:   {claimOver},
}

// become moves the claim to a state, and reports whether the claim is in it afterwards. It refuses a transition that is not
// drawn: the first outcome counts, such as when another client keeps a claim that is about to leave here. The reason why is
// for a claim that must go: [driver.ErrSession], or else [driver.ErrGone]. The caller holds mu.
func (lc *localClaim) become(next state, why error) bool {
	if !slices.Contains(moves[lc.state], next) {
		return lc.state == next
	}
	lc.state = next
	if lc.stands() {
		return true
	}
	if lc.gone == nil {
		lc.gone = why
	}
	lc.own.Drop()
	lc.unwatch()
	return true
}

// stands reports whether the claim is wanted, and in the store as far as known.
func (lc *localClaim) stands() bool { return lc.state <= claimHolding }

// mustGo reports whether the claim's node may still exist, and must be removed.
func (lc *localClaim) mustGo() bool {
	return lc.state == claimSpent || lc.state == claimEnding || lc.state == claimLeaving
}

// place notes whether the claim holds.
func (lc *localClaim) place(holds bool) {
	if holds {
		lc.become(claimHolding, nil)
	} else {
		lc.become(claimWaiting, nil)
	}
}

// end ends the claim here; its node must go.
func (lc *localClaim) end() bool { return lc.become(claimEnding, driver.ErrGone) }
