package advisory

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A state is how a claim stands here:
//
//	     ┌─────────┐ its key is locked ┌─────────┐ Leave with Keep ┌──────┐
//	────►│ waiting │──────────────────►│ holding │────────────────►│ kept │
//	     └──┬───┬──┘                   └──┬───┬──┘                 └─┬──┬─┘
//	        │   │ Leave, or its time      │   │ it is unlocked, or   │  │
//	        │   │ is over                 │   │ the session ends     │  │
//	        │   └────────────────────────►over◄──────────────────────┘  │
//	        │ the same, or Enter            ▲                           │
//	        │ fails, and a ghost            │ the ghost is gone         │ no answer to unlocking it
//	        │ may have its key        ┌─────┴────┐                      │ (also of one that holds)
//	        └────────────────────────►│ doubtful │◄─────────────────────┘
//	                                  └──────────┘
//
// A claim that waits has nothing in the session that could be lost, and waits on when that ends. One that is doubtful has left,
// or never entered, and nobody is told that it is gone before the [ghost] is.
type state int

const (
	claimWaiting state = iota
	claimHolding
	claimKept     // it has left, and its key stays locked until its time is over
	claimDoubtful // it is to be gone, and a ghost may have its key
	claimOver
)

// moves are the ways that a claim can go.
var moves = map[state][]state{
	claimWaiting:  {claimHolding, claimDoubtful, claimOver},
	claimHolding:  {claimKept, claimDoubtful, claimOver},
	claimKept:     {claimDoubtful, claimOver},
	claimDoubtful: {claimOver},
}

// A heldClaim is a claim of this client.
type heldClaim struct {
	id      string
	key     int64
	ticket  int64
	shared  bool
	state   state    // moved by move
	home    *backend // where its key is locked; set before it moves to claimHolding, unless its key is locked already
	ghost   *ghost   // that may have its key; nil if none was met
	ends    time.Time
	changed chan state    // its last state, if nobody has seen it yet; has room for one
	over    chan struct{} // closed when it is over
}

// locks reports whether a claim has its key locked.
func (c *heldClaim) locks() bool { return c.state == claimHolding || c.state == claimKept }

// An advisoryKey is one that the session has locked, once on the server for however many share it. Names with one key
// have one of these, so they keep each other out within the session as the server does between sessions.
type advisoryKey struct {
	shared  bool
	holders int
	home    *backend // the connection that it is locked on
}

// claims are those of this client, and the keys that its session has locked for them. It decides, and does no I/O.
// After each call,
//
//   - byID has the claims that are not over, and line has those of them that wait, as they came;
//   - keys has the keys of those that hold or are kept, with their number, which is 1 unless all of them share the key;
//   - locked has the number of the keys of each connection.
type claims struct {
	byID   map[string]*heldClaim
	line   []*heldClaim
	keys   map[int64]*advisoryKey
	locked map[*backend]int
	fallen map[string]bool // ids of claims that the last session took with it
	serial int64           // the last ticket
	due    time.Time       // no claim's time is over before
}

func newClaims() *claims {
	return &claims{byID: map[string]*heldClaim{}, keys: map[int64]*advisoryKey{}, locked: map[*backend]int{}}
}

// add makes a claim that waits.
func (cs *claims) add(id string, key int64, shared bool) *heldClaim {
	cs.serial++
	c := &heldClaim{id: id, key: key, ticket: cs.serial, shared: shared,
		changed: make(chan state, 1), over: make(chan struct{})}
	cs.byID[id], cs.line = c, append(cs.line, c)
	return c
}

// fits reports whether the session's own claims leave a key to this one.
func (cs *claims) fits(c *heldClaim) bool {
	k := cs.keys[c.key]
	return k == nil || k.shared && c.shared
}

// holds reports whether a claim holds.
func (cs *claims) holds(id string) bool {
	return cs.byID[id] != nil && cs.byID[id].state == claimHolding
}

// move moves a claim and all that depends on its state. A way that is not drawn is not gone, nor one to a key that the
// claim cannot have beside others. It reports whether the claim's key is to be unlocked, since nobody here has it any more.
func (cs *claims) move(c *heldClaim, next state) (unlock bool) {
	if !slices.Contains(moves[c.state], next) || next == claimHolding && !cs.fits(c) {
		return false
	}
	was, locked := c.state, c.locks()
	c.state = next
	if was == claimWaiting {
		cs.line = slices.DeleteFunc(cs.line, func(w *heldClaim) bool { return w == c })
	}
	k := cs.keys[c.key]
	switch {
	case next == claimHolding && k == nil:
		cs.keys[c.key] = &advisoryKey{c.shared, 1, c.home}
		cs.locked[c.home]++
	case next == claimHolding:
		c.home = k.home
		k.holders++
	case locked && !c.locks():
		k.holders--
		if unlock = k.holders == 0; unlock {
			delete(cs.keys, c.key)
			cs.locked[k.home]--
		}
	}
	if next == claimOver {
		delete(cs.byID, c.id)
		close(c.over)
	}
	select {
	case <-c.changed:
	default:
	}
	c.changed <- next // only moves send
	return unlock
}

// sessionOver ends all claims that had something on a connection, and returns their ids. Nothing is left there to be unlocked.
func (cs *claims) sessionOver(home *backend) (ids []string) {
	for id, c := range cs.byID {
		if c.locks() && c.home == home {
			cs.move(c, claimOver)
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		cs.fallen = map[string]bool{}
		for _, id := range ids {
			cs.fallen[id] = true
		}
	}
	return ids
}

// first returns the claim that has waited longest for a key, in one way; nil if none does.
func (cs *claims) first(key int64, shared bool) *heldClaim {
	i := slices.IndexFunc(cs.line, func(c *heldClaim) bool { return c.key == key && c.shared == shared })
	if i < 0 {
		return nil
	}
	return cs.line[i]
}

// gone is the error for a claim that is not there.
func (cs *claims) gone(id string) error {
	if cs.fallen[id] {
		return driver.ErrSession
	}
	return driver.ErrGone
}

// until sets when a claim's time is over, but never earlier than it was to be.
func (cs *claims) until(c *heldClaim, t time.Time) {
	if t.After(c.ends) {
		c.ends = t
	}
	if c.ends.Before(cs.due) {
		cs.due = c.ends
	}
}

// exorcised ends the claims of which it is proven now that nothing is left in the server.
func (cs *claims) exorcised() {
	for _, c := range cs.byID {
		if c.state == claimDoubtful && !c.ghost.haunts() {
			cs.move(c, claimOver)
		}
	}
}

// expired returns the claims whose time is over, which are to be ended now.
func (cs *claims) expired(now time.Time) (over []*heldClaim) {
	if now.Before(cs.due) {
		return nil
	}
	cs.due = now.Add(time.Hour)
	for _, c := range cs.byID {
		if c.state == claimDoubtful {
			continue
		}
		if !now.Before(c.ends) {
			over = append(over, c)
		} else if c.ends.Before(cs.due) {
			cs.due = c.ends
		}
	}
	return over
}
