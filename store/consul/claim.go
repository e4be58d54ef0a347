package consul

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A localClaim is this client's knowledge of a claim. The table has the claims that this client entered, or adopted from
// another client. A localClaim for another client's claim lasts only for one call. The driver's mu guards the fields that
// change.
type localClaim struct {
	id, name string
	folder   string // of the name
	key      string // the claim's own key
	record   []byte

	session *session
	seen    uint64 // the newest index seen before the request for its key; 0 if another client entered it

	exclusive bool    // as in its key, as far as known here: an amendment may make the claim shared
	state     state   // moved by becomeLocked
	wait      *target // of a claim that waits: the target that must change before its turn; nil if unknown

	folderIndex uint64 // the index at which Await last saw the folder change, lower after a restore; 0 before that

	watch *time.Timer // of a claim that holds: starts to watch its key after a while
	stop  context.CancelFunc
}

func exclusive(c *driver.Claim) bool { return c.Weight == driver.All && c.Capacity == driver.All }

// A state is a step on a claim's way; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // the request for its key is under way
	claimWaiting              // it is in the queue and waits, as of the last read
	claimCalled               // its target has changed: its turn may have come
	claimHolding              // its holder knows that it holds; an exclusive claim has the lock's key
	claimUnsure               // the client does not know its keys: an answer was lost, or another client entered it
	claimLeft                 // it left, or never entered: it has no key, and none of its requests is on its way
	claimLost                 // it ended in another way: its session may still have a key
)

// ways are the transitions between states.
var ways = map[state][]state{
	claimAsking:  {claimWaiting, claimHolding, claimUnsure, claimLeft, claimLost},
	claimWaiting: {claimCalled, claimHolding, claimUnsure, claimLeft, claimLost},
	claimCalled:  {claimWaiting, claimHolding, claimUnsure, claimLeft, claimLost},
	claimHolding: {claimWaiting, claimUnsure, claimLeft, claimLost},
	claimUnsure:  {claimWaiting, claimHolding, claimLeft, claimLost},
}

// over reports whether the state is an end, which no transition leaves.
func (s state) over() bool { return s == claimLeft || s == claimLost }

// becomeLocked moves the claim to a state, and reports whether the claim is in it afterwards. It refuses a transition
// that is not drawn: the first outcome counts, so a claim that left during an Enter does not hold.
func (lc *localClaim) becomeLocked(next state) bool {
	if !slices.Contains(ways[lc.state], next) {
		return lc.state == next
	}
	lc.state = next
	// A request of unknown outcome may arrive after the next claim of the session has entered, and a lost claim may still
	// have a key with the session. So the session serves no other claim. This line is the whole rule.
	lc.session.spoiled = lc.session.spoiled || next == claimUnsure || next == claimLost
	if next != claimWaiting {
		lc.wait = nil
	}
	if next != claimHolding {
		lc.unwatchLocked()
	}
	return true
}

// settleLocked notes the end of stands in the claim, and reports whether the claim is in the queue.
func (lc *localClaim) settleLocked(m move) bool {
	if m.end == endHolds {
		lc.exclusive = lc.exclusive && *m.exclusive // a weight only falls
		return lc.becomeLocked(claimHolding)
	}
	if !lc.becomeLocked(claimWaiting) {
		return false
	}
	if lc.wait = m.wait; lc.wait != nil && lc.wait.recurse {
		// The index of a folder also counts keys that were removed, and no remaining key shows that index. The queue was
		// read after Await returned, so it includes every change up to the index that Await saw.
		lc.wait.index = max(lc.wait.index, lc.folderIndex)
	}
	return true
}

// hasLockKeyLocked reports whether the claim's session holds the lock's key, as far as this client knows.
func (lc *localClaim) hasLockKeyLocked() bool { return lc.state == claimHolding && lc.exclusive }

// newLocalClaim returns a claim with its session. It enters the table only by remember.
func newLocalClaim(c *driver.Claim, folder string, s *session, is state) *localClaim {
	return &localClaim{
		id: c.ID, name: c.Name, folder: folder, key: folder + driver.EncodeName(c.ID), record: []byte(c.Record),
		session: s, exclusive: exclusive(c), state: is,
	}
}
