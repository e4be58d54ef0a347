package etcd

import "slices"

// A state is where a claim is on its way; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // its key is asked for; whether that is in etcd is not known
	claimFound                // its key is in etcd; whether it holds is not known here
	claimWaiting              // it waits, as it was last seen
	claimHolding              // it holds, and goes on to hold until its key goes
	claimDeleted              // its key was seen to go; etcd is asked before anybody is told so
	claimLeaving              // its client wants it gone, and does not know yet that it is
	claimKept                 // it has left, and its key stays until its time is over
	claimGone                 // its key is not in etcd any more
	claimLost                 // the lease that it lived by is no more
)

// moves are the ways that a claim can go.
var moves = map[state][]state{
	claimAsking:  {claimFound, claimKept, claimGone, claimLost},
	claimFound:   {claimWaiting, claimHolding, claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimWaiting: {claimHolding, claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimHolding: {claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimDeleted: {claimLeaving, claimKept, claimGone, claimLost},
	claimLeaving: {claimKept, claimGone, claimLost},
}

// become moves the claim, and reports whether it moved. A way that is not drawn is not gone: an answer that comes late, such
// as that a claim waits which has come to hold since, changes nothing. The caller holds Driver.mu.
func (k *claim) become(next state) bool {
	if !slices.Contains(moves[k.state], next) {
		return false
	}
	k.state = next
	return true
}

// ended reports that nothing follows.
func (k *claim) ended() bool { return k.state >= claimKept }

// entered reports whether the key of the claim is known to have been in etcd, and was not found to be gone.
func (k *claim) entered() bool { return claimFound <= k.state && k.state <= claimLeaving }

// placed reports whether an answer of etcd has told where the claim stands.
func (k *claim) placed() bool {
	return k.state == claimWaiting || k.state == claimHolding || k.state == claimDeleted
}

// alarms reports whether the claim's client wants to hear at once that its key is gone. One that waits finds out by itself.
func (k *claim) alarms() bool { return k.state == claimFound || k.state == claimHolding }
