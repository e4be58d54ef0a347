package zookeeper

import (
	"slices"

	"github.com/stilelock/stile/driver"
)

// A state is where a claim is on its way; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // its node was asked for; where it stands is not known yet
	claimWaiting              // it waits, as it was last seen
	claimHolding              // it holds, as it was last seen
	claimKept                 // it has left, and its node stays until its time is over
	claimSpent                // its node was kept, and must go now
	claimEnding               // its lease ran out, or it was not let in: its node must go
	claimLeaving              // its client wants it gone, and does not know yet that it is
	claimOver                 // it is gone for certain, or with its session: nothing is left to be done
)

// moves are the ways that a claim can go.
var moves = map[state][]state{
	claimAsking:  {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimWaiting: {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimHolding: {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimEnding:  {claimKept, claimLeaving, claimOver},
	claimLeaving: {claimKept, claimOver},
	claimKept:    {claimSpent, claimOver},
	claimSpent:   {claimOver},
}

// become moves the claim, and reports whether it is in that state then. A way that is not drawn is not gone: who came
// first has decided, such as another client that keeps a claim which is about to leave here. Why counts for a claim that is
// no longer wanted: [driver.ErrSession], or else [driver.ErrGone]. The caller holds mu.
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

// stands reports whether the claim is wanted, and in the store as far as is known.
func (lc *localClaim) stands() bool { return lc.state <= claimHolding }

// mustGo reports whether the claim's node may still be there, and is to be removed.
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

// end ends the claim here, whose node must go.
func (lc *localClaim) end() bool { return lc.become(claimEnding, driver.ErrGone) }
