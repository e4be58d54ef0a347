package consul

import "slices"

// A state is where a claim is on its way; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // the request for its key is under way
	claimWaiting              // it stands in the queue and waits, as it was last seen
	claimCalled               // what it waited for has changed: it may be its turn
	claimHolding              // it was told that it holds; an exclusive claim has the lock's key
	claimUnsure               // nobody here knows which keys it has: an answer was lost, or another client entered it
	claimLeft                 // it left, or never entered: it has no key, and no request of its own is on its way
	claimLost                 // it went in another way: its session may have a key yet
)

// moves are the ways that a claim can go.
var moves = map[state][]state{
	claimAsking:  {claimWaiting, claimHolding, claimUnsure, claimLeft, claimLost},
	claimWaiting: {claimCalled, claimHolding, claimUnsure, claimLeft, claimLost},
	claimCalled:  {claimWaiting, claimHolding, claimUnsure, claimLeft, claimLost},
	claimHolding: {claimWaiting, claimUnsure, claimLeft, claimLost},
	claimUnsure:  {claimWaiting, claimHolding, claimLeft, claimLost},
}

// over reports whether the claim has come to its end, from which nothing leads.
func (s state) over() bool { return s == claimLeft || s == claimLost }

// become moves the claim, and reports whether it is in that state then. It refuses a way that is not drawn: who came first
// has decided, so a claim that left while an Enter was under way does not hold. The caller holds the driver's mu.
func (lc *localClaim) become(next state) bool {
	if !slices.Contains(moves[lc.state], next) {
		return lc.state == next
	}
	lc.state = next
	// A request of unknown outcome may enterNew after the next claim of its session, and a claim that was lost may have a
	// key by that session. So the session serves no other claim: this line is the whole of that rule.
	lc.session.spoiled = lc.session.spoiled || next == claimUnsure || next == claimLost
	if next != claimWaiting {
		lc.wait = nil
	}
	if next != claimHolding {
		lc.unwatch()
	}
	return true
}

// hasLockKey reports whether the claim's session holds the lock's key, as far as is known here. The caller holds mu.
func (lc *localClaim) hasLockKey() bool { return lc.state == claimHolding && lc.exclusive }
