package consul

import (
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// claims is the table of the claims that this client entered, or adopted from another client.
type claims struct {
	sessions *sessions

	mu    *sync.Mutex // guards the fields below, the claims and the sessions; it is the driver's
	known map[string]*localClaim
	limit known.Limit
}

// of returns the claim in the table, or nil.
func (t *claims) of(c *driver.Claim) *localClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	lc := t.known[c.ID]
	if lc == nil || lc.name != c.Name {
		return nil
	}
	return lc
}

// remember puts a claim into the table, and returns it.
func (t *claims) remember(lc *localClaim) *localClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit.Reached(len(t.known)) {
		t.forgetOverLocked()
	}
	if old := t.known[lc.id]; old != nil {
		old.unwatchLocked()
	}
	t.known[lc.id] = lc
	return lc
}

// forgetOverLocked forgets claims whose sessions this client has not renewed for long. A detached claim may live on in
// another client, so its session is left alone.
func (t *claims) forgetOverLocked() {
	for id, lc := range t.known {
		if lc.session.remainingLocked() < -lc.session.ttl {
			lc.unwatchLocked()
			delete(t.known, id)
		}
	}
	t.limit.Swept(len(t.known))
}

// become is localClaim.becomeLocked for callers that do not hold mu.
func (t *claims) become(lc *localClaim, next state) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lc.becomeLocked(next)
}

// setExclusive notes whether a claim is exclusive by its key, and returns the former value.
func (t *claims) setExclusive(lc *localClaim, exclusive bool) (was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, lc.exclusive = lc.exclusive, exclusive
	return was
}

// hasLockKey is localClaim.hasLockKeyLocked for callers that do not hold mu.
func (t *claims) hasLockKey(lc *localClaim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lc.hasLockKeyLocked()
}

// finish ends a claim and gives its session back, only once: if a Leave and a renewal both find the claim gone, the second
// one changes nothing.
func (t *claims) finish(lc *localClaim, how state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lc.state.over() || !lc.becomeLocked(how) {
		return
	}
	if t.known[lc.id] == lc {
		delete(t.known, lc.id)
	}
	if how == claimLost && lc.session.borrowed {
		return // if the claim left by its own client, its session serves another claim there
	}
	t.sessions.recycleLocked(lc.session)
}
