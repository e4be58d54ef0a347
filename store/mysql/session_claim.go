package mysql

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/known"
)

// A claimState is how a claim of a session stands:
//
//	     ┌─────────┐ GET_LOCK says 1 ┌─────────┐ Leave with Keep ┌──────┐
//	────►│ waiting │────────────────►│ holding │────────────────►│ kept │
//	     └──┬───┬──┘                 └──┬───┬──┘                 └─┬──┬─┘
//	        │   │ Leave, or its time    │   │ RELEASE_LOCK says 1, │  │
//	        │   │ is over, and nothing  │   │ or the end of its    │  │
//	        │   │ of it is in the server│   │ connection           │  │
//	        │   └──────────────────────►over◄──────────────────────┘  │
//	        │                            ▲                            │
//	        │ Leave, or GET_LOCK has     │ its connection is          │ RELEASE_LOCK has no answer,
//	        │ no answer, and a connection│ proven to be gone          │ also of one that holds
//	        │ could have its lock   ┌────┴─────┐                      │
//	        └──────────────────────►│ doubtful │◄─────────────────────┘
//	                                └──────────┘
//
// A claim that waits has nothing in the server that could be lost, and waits on when its connection ends. One that is doubtful
// has left, or never entered, and nobody is told that it is gone before that is proven. One whose time is over is doubtful while
// the server frees its lock, so that a renewal that is answered meanwhile does not promise what is freed.
type claimState int

const (
	claimWaiting claimState = iota
	claimHolding
	claimKept     // it has left, and its lock stays until its time is over
	claimDoubtful // it is to be gone, and its lock may not be free yet
	claimOver
)

// claimMoves are the ways that a claim can go.
var claimMoves = map[claimState][]claimState{
	claimWaiting:  {claimHolding, claimDoubtful, claimOver},
	claimHolding:  {claimKept, claimDoubtful, claimOver},
	claimKept:     {claimDoubtful, claimOver},
	claimDoubtful: {claimOver},
}

// A sessionClaim is a claim of this client. What is not said to be another's is guarded by the mutex of its claims.
type sessionClaim struct {
	id, lock string
	key      string // of the lock: where the server takes names that differ only in case for one, so does this
	ticket   int64
	state    claimState    // moved by move
	entered  time.Time     // when it last entered
	ends     time.Time     // when its time is over
	conn     *sessionConn  // that has its lock, or may have it
	answered chan struct{} // closed when the server has said for the first time whether it holds
	failed   error         // why it never entered; set before answered is closed
	changed  chan struct{} // has room for one; told after each move, for who awaits it
	kick     chan struct{} // the same, for who keeps it
	settled  chan struct{} // closed when it no longer waits
	over     chan struct{} // closed when it is over

	busy sync.Mutex // held by whoever tries to get its lock, begins to wait for it, asks about it or frees it
}

// sessionClaims are those of one client. After each call, byID has those that are not over.
type sessionClaims struct {
	mu     sync.Mutex // guards what follows, and the claims; nothing blocks under it
	byID   map[string]*sessionClaim
	serial int64                    // the last ticket
	exact  bool                     // the server tells upper from lower case, as MariaDB does; set once
	fallen map[string]time.Duration // ids of claims that went with their connection, until when they are remembered
	limit  known.Limit
}

// add makes a claim that waits, or returns the one that is there.
func (cs *sessionClaims) add(c *driver.Claim, now time.Time) (own *sessionClaim, added bool, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	own = cs.byID[c.ID]
	if own != nil && own.state < claimKept {
		return own, false, nil
	}
	if own != nil && own.state == claimDoubtful {
		return nil, false, driver.Unknown(errDoubtful)
	}
	if _, fell := cs.fallen[c.ID]; own != nil || fell || c.Ticket != 0 {
		return nil, false, cs.gone(c.ID)
	}
	cs.serial++
	own = &sessionClaim{
		id: c.ID, lock: lockName(c.Name), key: lockName(c.Name), ticket: cs.serial, entered: now, ends: now.Add(c.Wait),
		answered: make(chan struct{}), changed: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		settled: make(chan struct{}), over: make(chan struct{}),
	}
	if !cs.exact {
		own.key = strings.ToLower(own.key)
	}
	cs.byID[c.ID] = own
	return own, true, nil
}

// find returns a claim that has not left.
func (cs *sessionClaims) find(id string) (*sessionClaim, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.byID[id]; c != nil && c.state < claimKept {
		return c, nil
	}
	return nil, cs.gone(id)
}

// gone is the error for a claim that is not there. The mutex must be held.
func (cs *sessionClaims) gone(id string) error {
	if _, fell := cs.fallen[id]; fell {
		return driver.ErrSession
	}
	return driver.ErrGone
}

// of returns how a claim stands, and the connection that has its lock.
func (cs *sessionClaims) of(c *sessionClaim) (claimState, *sessionConn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.state, c.conn
}

// move moves a claim, and reports whether it did. A way that is not drawn is not gone.
func (cs *sessionClaims) move(c *sessionClaim, next claimState) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.moveLocked(c, next)
}

func (cs *sessionClaims) moveLocked(c *sessionClaim, next claimState) bool {
	if !slices.Contains(claimMoves[c.state], next) {
		return false
	}
	if c.state == claimWaiting {
		close(c.settled)
	}
	c.state = next
	if next == claimOver {
		delete(cs.byID, c.id)
		close(c.over)
	}
	for _, told := range []chan struct{}{c.changed, c.kick} {
		select {
		case told <- struct{}{}:
		default: // it has not seen the last time yet
		}
	}
	return true
}

// hold moves a claim that waits to one that holds on a connection whose lease in the server began no earlier than then. It
// does not if the claim has entered since: then the lease of that entry may end later than the server's.
func (cs *sessionClaims) hold(c *sessionClaim, conn *sessionConn, then time.Time) (holds, over bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.state == claimWaiting && c.entered.After(then) {
		return false, false
	}
	if !cs.moveLocked(c, claimHolding) {
		return false, true
	}
	c.conn = conn
	return true, false
}

// fall ends a claim that holds on a connection which has ended, and reports whether it did.
func (cs *sessionClaims) fall(c *sessionClaim, conn *sessionConn, ttl time.Duration) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.conn != conn || c.state != claimHolding && c.state != claimKept || !cs.moveLocked(c, claimOver) {
		return false
	}
	if cs.limit.Reached(len(cs.fallen)) {
		now := boottime.Now()
		for id, until := range cs.fallen {
			if now > until {
				delete(cs.fallen, id)
			}
		}
		cs.limit.Swept(len(cs.fallen))
	}
	cs.fallen[c.id] = known.Until(ttl)
	return true
}

// stay starts the lease of a claim anew, and returns where it stands. A lease is never made shorter, and is trusted for no
// longer than the server keeps a connection that is silent. It is not done if the claim holds, and its connection is not
// known to have spoken since then.
func (cs *sessionClaims) stay(
	own *sessionClaim, c *driver.Claim, then time.Time, most time.Duration, spoke bool,
) (p driver.Place, done bool, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	p.Ticket = own.ticket
	ttl := c.TTL
	switch {
	case own.state == claimHolding && !spoke:
		return p, false, nil
	case own.state == claimHolding:
		p.Holds = true
	case own.state == claimWaiting:
		ttl, p.Ahead, own.entered = c.Wait, 1, then
	default:
		return p, false, cs.gone(own.id)
	}
	if ends := then.Add(ttl); ends.After(own.ends) || p.Holds && own.entered.Equal(then) {
		own.ends = ends
	}
	p.TTL = min(own.ends.Sub(then), most)
	return p, true, nil
}

// waitsOn notes on which connection a claim waits, or which one may have its lock. It is false, and changes nothing, if the claim
// does not wait.
func (cs *sessionClaims) waitsOn(c *sessionClaim, conn *sessionConn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.state != claimWaiting {
		return false
	}
	c.conn = conn
	return true
}

// lapse ends a claim that waits, and of which nothing is in the server.
func (cs *sessionClaims) lapse(c *sessionClaim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.state == claimWaiting {
		cs.moveLocked(c, claimOver)
	}
}

// doubt makes a claim doubtful that waits, and returns the connection on which it does. It is false if the claim does not wait.
func (cs *sessionClaims) doubt(c *sessionClaim) (conn *sessionConn, waited bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.conn, c.state == claimWaiting && cs.moveLocked(c, claimDoubtful)
}

// keep has a claim that holds leave at some later time.
func (cs *sessionClaims) keep(c *sessionClaim, until time.Time) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.moveLocked(c, claimKept) {
		return false
	}
	c.ends = until
	return true
}

// until returns when the time of a claim is over.
func (cs *sessionClaims) until(c *sessionClaim) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.ends
}

// expire makes a claim doubtful that holds or is kept and whose time is over, and returns the connection that has its lock.
// It reports whether the claim is over, or on its way there.
func (cs *sessionClaims) expire(c *sessionClaim, now time.Time) (conn *sessionConn, over bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.state == claimDoubtful || c.state == claimOver {
		return nil, true
	}
	if now.Before(c.ends) || !cs.moveLocked(c, claimDoubtful) {
		return nil, false
	}
	return c.conn, true
}

// ending returns a claim that is doubtful, nil if that one is not.
func (cs *sessionClaims) ending(id string) *sessionClaim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.byID[id]; c != nil && c.state == claimDoubtful {
		return c
	}
	return nil
}

// leaver returns a claim that can leave: also one that has tried, and whose lock may not be free yet.
func (cs *sessionClaims) leaver(id string) (*sessionClaim, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.byID[id]; c != nil && c.state != claimKept {
		return c, nil
	}
	return nil, cs.gone(id)
}

// why is the error for a claim that is not there.
func (cs *sessionClaims) why(id string) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.gone(id)
}
