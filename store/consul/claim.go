package consul

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A localClaim is what this client knows of a claim: of one that it entered, or took up from another client, in the
// table, or of another client's for the length of a call. Its fields are guarded by the driver's mu, but for those that
// never change.
type localClaim struct {
	id, name string
	folder   string // of the name
	key      string // the claim's own
	record   []byte

	session *session
	seen    uint64 // the newest index that was seen before its key was asked for; 0 if another client entered it

	exclusive bool    // as its key has it, as far as is known here: a claim may be amended to share
	state     state   // moved by become
	wait      *target // of one that waits: what has to change before its turn comes; nil if that is not known

	folderIndex uint64 // at which Await last saw the folder change, lower again after a restore; 0 if it has not seen that

	watch *time.Timer // of one that holds: begins to watch its key, once it has held for a while
	stop  context.CancelFunc
}

func exclusive(c *driver.Claim) bool { return c.Weight == driver.All && c.Capacity == driver.All }

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

// ways are the ways that a claim can go.
var ways = map[state][]state{
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
	if !slices.Contains(ways[lc.state], next) {
		return lc.state == next
	}
	lc.state = next
	// A request of unknown outcome may arrive after the next claim of its session, and a claim that was lost may have a
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

// settle notes where a claim stands by the end of stands, and reports whether it does. The caller holds the driver's mu.
func (lc *localClaim) settle(m move) bool {
	if m.end == endHolds {
		lc.exclusive = lc.exclusive && *m.weighs // a weight only falls
		return lc.become(claimHolding)
	}
	if !lc.become(claimWaiting) {
		return false
	}
	if lc.wait = m.wait; lc.wait != nil && lc.wait.recurse {
		// The index of a folder counts keys too that are gone, and none that is left shows it. What changed up to the index that
		// Await was told is in this queue, which was read after that.
		lc.wait.index = max(lc.wait.index, lc.folderIndex)
	}
	return true
}

// hasLockKey reports whether the claim's session holds the lock's key, as far as is known here. The caller holds mu.
func (lc *localClaim) hasLockKey() bool { return lc.state == claimHolding && lc.exclusive }

// newLocalClaim returns a claim with its session. It is in the table once remember has put it there.
func newLocalClaim(c *driver.Claim, folder string, s *session, is state) *localClaim {
	return &localClaim{
		id: c.ID, name: c.Name, folder: folder, key: folder + driver.EncodeName(c.ID), record: []byte(c.Record),
		session: s, exclusive: exclusive(c), state: is,
	}
}
