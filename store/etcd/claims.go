package etcd

import (
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/known"
)

// claims is the table of what the driver knows of claims, and ends what is done for them.
type claims struct {
	pool    *pool
	watches *watches

	mu    *sync.Mutex // guards what follows, and the claims; the driver's, as for the watches
	known map[string]*localClaim
	limit known.Limit
}

func newClaims(mu *sync.Mutex, p *pool, ws *watches) *claims {
	return &claims{pool: p, watches: ws, mu: mu, known: map[string]*localClaim{}}
}

// of returns what is known of a claim, or nil.
func (t *claims) of(id string) *localClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[id]
}

// remember returns what is known of a claim, to begin with this.
func (t *claims) remember(k *localClaim) *localClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.known[k.id]; old != nil {
		return old
	}
	if t.limit.Reached(len(t.known)) {
		t.sweepLocked()
	}
	t.known[k.id], k.known = k, true
	return k
}

// sweepLocked forgets claims that ran out long ago, and that nobody asked for again.
func (t *claims) sweepLocked() {
	now := boottime.Now()
	for _, k := range t.known {
		if ttl, left := k.life.time(now); left < -ttl {
			t.endLocked(k, claimLost)
		}
	}
	t.limit.Swept(len(t.known))
}

// end ends a claim, and what the driver does for it. Only the first end counts: a claim that leaves while it is renewed is
// found gone by both, and a lease that was given back twice would serve two claims.
func (t *claims) end(k *localClaim, how state) {
	t.mu.Lock() // until its leases are noted as revoked: a call may find a late key on one
	defer t.mu.Unlock()
	if !t.endLocked(k, how) { // a call that was told so later
		return
	}
	leases := k.leasesLocked()
	switch how {
	case claimGone: // nothing hangs on its leases any more
		for _, l := range leases {
			t.pool.put(l)
		}
	case claimKept: // the key that stays hangs on another lease; it is named for one of these, which must not name a second
		t.pool.discard(leases...)
	}
	// What is left of a claim whose lease is no more runs out by itself: its key may be in its lock-delay.
}

// dismiss ends a claim whose Enter has failed, unless it is known to be in etcd: nobody takes out what was not put. If a
// request may have put it, or may put it yet, its client enters again or leaves, and until then the claim hears nothing: to
// revoke its lease would end it under a client that finds it.
func (t *claims) dismiss(k *localClaim) {
	if k == nil {
		return
	}
	ended := false
	t.mu.Lock() // so that another call for the claim has noted its request, or finds the claim ended
	switch {
	case k.state != claimAsking:
	case k.home.doubtful():
		t.watches.unsubscribeLocked(k)
	default:
		ended = t.endLocked(k, claimGone)
	}
	t.mu.Unlock()
	if ended {
		t.pool.put(k.home)
	}
}

func (t *claims) endLocked(k *localClaim, how state) bool {
	if !k.become(how) {
		return false
	}
	t.watches.unsubscribeLocked(k)
	if k.known {
		delete(t.known, k.id)
		k.known = false
	}
	return true
}

// leases returns the lease that a claim lives by, and that which its key hangs on: mostly the same.
func (t *claims) leases(k *localClaim) (life, on *lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return k.life, k.on
}

// meet returns what is known of a claim whose key was found, of which the call knew that before, or nil. Another driver's is not
// remembered, and so only the call that has found it knows of its leases; only Renew has the driver look after one.
func (t *claims) meet(c *driver.Claim, before *localClaim, e *entry) *localClaim {
	t.mu.Lock()
	k := t.known[c.ID]
	if k == nil && before != nil && !before.ended() {
		k = before
	}
	t.mu.Unlock()
	if k != nil && k.key != e.key {
		t.end(k, claimGone) // it is another driver's key by the same id: that of ours, if there was one, is gone
		k = nil
	}
	if k == nil {
		k = claimAt(c, e, t.pool)
	}
	t.sight(k, e)
	return k
}

// sight notes where the key of the claim is. What was read before the key was last changed says nothing new.
func (t *claims) sight(k *localClaim, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.become(claimFound)
	if e.modified < k.modified {
		return
	}
	k.created, k.modified = e.created, e.modified
	life, _ := e.life()
	l, on := k.leaseLocked(life, t.pool.term(life, e.Term)), k.leaseLocked(e.lease, t.pool.term(e.lease, e.Term))
	if l.id == on.id {
		l = on // also if it was not known
	}
	k.life, k.on = l, on
}

// lastSeen returns the entry of a claim as it was last seen in etcd, or nil if it never was.
func (t *claims) lastSeen(k *localClaim) *entry {
	if k == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !k.entered() {
		return nil
	}
	return &entry{key: k.key, created: k.created, modified: k.modified}
}

// asks notes that a request is sent about a claim. What it returns notes that the outcome is known.
func (t *claims) asks(k *localClaim, to ...*lease) (answered func(), err error) {
	t.mu.Lock() // so that either the claim is over, or its end finds the request noted
	defer t.mu.Unlock()
	if k.ended() {
		return nil, driver.ErrGone
	}
	about := append([]*lease{k.home}, to...)
	for _, l := range about {
		l.asked(1)
	}
	return func() {
		for _, l := range about {
			l.asked(-1)
		}
	}, nil
}

// leaves has a claim that is about to leave hear nothing of its own leaving.
func (t *claims) leaves(k *localClaim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.become(claimLeaving)
	t.watches.unsubscribeLocked(k)
}

// hang notes that a claim lives by a lease, and that its key hangs on that or a longer one. If it lives by another than before, those
// that it had serve nobody. If the claim was over before, the new ones run out.
func (t *claims) hang(k *localClaim, life, on *lease, modified int64) {
	var old []*lease
	t.mu.Lock()
	if !k.ended() {
		if k.life != life {
			old = k.leasesLocked()
		}
		k.life, k.on, k.modified = life, on, max(k.modified, modified)
	}
	t.mu.Unlock()
	t.pool.discard(old...)
}

// written notes that the key of a claim was written anew.
func (t *claims) written(k *localClaim, modified int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.modified = max(k.modified, modified)
}

// tell has a goal know what is known of a claim, and returns the lease that its key hangs on.
func (t *claims) tell(k *localClaim, s *seat) (on *lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.key, s.has = k.key, hold{grantOf(k.life), grantOf(k.on)}
	if s.known = k.entered(); s.known {
		s.created, s.modified = k.created, k.modified
	}
	return k.on
}
