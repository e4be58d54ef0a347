package line

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A state is a step on the way of a claim; the package comment has the drawing.
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

// transitions are the states to which a claim may move from each state.
var transitions = map[state][]state{
	claimAsking:  {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimWaiting: {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimHolding: {claimWaiting, claimHolding, claimKept, claimEnding, claimLeaving, claimOver},
	claimEnding:  {claimKept, claimLeaving, claimOver},
	claimLeaving: {claimKept, claimOver},
	claimKept:    {claimSpent, claimOver},
	claimSpent:   {claimOver},
}

// A lease is a claim's state, and the time when it ends. It has no clock: callers pass the time in.
type lease struct {
	state state         // moved by become
	gone  error         // why the claim must go: ErrGone or ErrSession; nil before that
	ends  time.Duration // when the lease ends, unless it is renewed; for a kept claim, when it must go
}

// become moves the claim to a state, and reports whether the claim is in it afterwards. It refuses a move that is not in
// transitions. So the first outcome counts, for example if another client keeps a claim that is about to leave here. why is
// the reason if the claim must go: [driver.ErrSession] or [driver.ErrGone].
func (l *lease) become(next state, why error) bool {
	if !slices.Contains(transitions[l.state], next) {
		return l.state == next
	}
	l.state = next
	if !l.stands() && l.gone == nil {
		l.gone = why
	}
	return true
}

// stands reports whether the claim is wanted and, as far as known, in the store.
func (l *lease) stands() bool { return l.state <= claimHolding }

// mustGo reports whether the claim's node may still exist, and must be removed.
func (l *lease) mustGo() bool {
	return l.state == claimSpent || l.state == claimEnding || l.state == claimLeaving
}

// pass ends a claim that stands if its session or its time is over.
func (l *lease) pass(now time.Duration, sessionOver bool) {
	switch {
	case l.gone != nil:
	case sessionOver:
		l.become(claimOver, driver.ErrSession)
	case now >= l.ends:
		l.become(claimEnding, driver.ErrGone)
	}
}

// prolong renews the lease, but never makes it shorter.
func (l *lease) prolong(now, length time.Duration) { l.ends = max(l.ends, now+length) }

// left returns the rest of the lease.
func (l *lease) left(now time.Duration) time.Duration { return l.ends - now }

// becomeLocked moves the claim's lease. A claim that is no longer wanted drops its watches.
func (lc *LocalClaim) becomeLocked(next state, why error) bool {
	is := lc.lease.become(next, why)
	if !lc.lease.stands() {
		lc.listener.drop()
	}
	return is
}

// placeLocked notes whether the claim holds.
func (lc *LocalClaim) placeLocked(holds bool) {
	if holds {
		lc.becomeLocked(claimHolding, nil)
	} else {
		lc.becomeLocked(claimWaiting, nil)
	}
}

// endLocked ends the claim here; its node must go.
func (lc *LocalClaim) endLocked() bool { return lc.becomeLocked(claimEnding, driver.ErrGone) }
