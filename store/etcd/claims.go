package etcd

import (
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/known"
)

// claims is the table of local claims. It also ends them: their watches, and the use of their leases.
type claims struct {
	pool    *pool
	watches *watches

	mu    *sync.Mutex // the driver's, shared with the watches; guards the fields below, and the local claims
	known map[string]*localClaim
	limit known.Limit
}

func newClaims(mu *sync.Mutex, p *pool, ws *watches) *claims {
	return &claims{pool: p, watches: ws, mu: mu, known: map[string]*localClaim{}}
}

// of returns the local claim with an id, or nil.
func (t *claims) of(id string) *localClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[id]
}

// remember puts a local claim into the table. If the table has one with the same id, remember returns that one instead.
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

// sweepLocked forgets claims whose leases ended longer ago than the length of the lease.
func (t *claims) sweepLocked() {
	now := boottime.Now()
	for _, k := range t.known {
		if ttl, left := k.life.time(now); left < -ttl {
			t.endLocked(k, claimLost)
			k.nudge() // the lease of another driver's claim may not be over: it enters again
		}
	}
	t.limit.Swept(len(t.known))
}

// end ends a local claim, and puts or discards its leases. Only the first end counts: if a claim leaves while it is
// renewed, both calls find it gone, and a lease that was put back twice would serve two claims.
func (t *claims) end(k *localClaim, how state) {
	t.mu.Lock() // until the pool has noted the leases as revoked: a call may find a late key on one
	defer t.mu.Unlock()
	if !t.endLocked(k, how) { // another call ended the claim first
		return
	}
	leases := k.leasesLocked()
	switch how {
	case claimGone: // no key is attached to its leases any more
		for _, l := range leases {
			t.pool.put(l)
		}
	case claimKept: // the kept key has one of these leases in its name, and no second key may have that name
		t.pool.discard(leases...)
	}
	// The leases of a lost claim run out by themselves: its key may be in its lock-delay.
}

// dismiss ends a local claim whose Enter failed, unless its key is known to be in etcd: without a key, nobody calls Leave.
// If a request may have put the key, or may put it yet, dismiss only ends its subscription. Its client enters again, or
// leaves. To revoke its lease would end the claim under a client that finds it.
func (t *claims) dismiss(k *localClaim) {
	if k == nil {
		return
	}
	ended := false
	t.mu.Lock() // so that another call for the claim either has noted its request, or finds the claim ended
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
	if !k.becomeLocked(how) {
		return false
	}
	t.watches.unsubscribeLocked(k)
	if k.known {
		delete(t.known, k.id)
		k.known = false
	}
	return true
}

// leases returns the claim's lease and the key's lease, which mostly are the same.
func (t *claims) leases(k *localClaim) (life, on *lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return k.life, k.on
}

// meet returns the local claim of a key that was found; before is the one that the call had, or nil. If another driver put
// the key, meet makes a local claim, and does not put it into the table: only Renew does that.
func (t *claims) meet(c *driver.Claim, before *localClaim, e *entry) *localClaim {
	t.mu.Lock()
	k := t.known[c.ID]
	if k == nil && before != nil && !before.ended() {
		k = before
	}
	t.mu.Unlock()
	if k != nil && k.key != e.key {
		t.end(k, claimGone) // another driver put this key by the same id; our own key, if there was one, is gone
		k = nil
	}
	if k == nil {
		k = claimAt(c, e, t.pool)
	}
	t.sight(k, e)
	return k
}

// sight notes the entry of a claim's key. An entry that was read before the key was last changed adds nothing.
func (t *claims) sight(k *localClaim, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.becomeLocked(claimFound)
	if e.modified < k.modified {
		return
	}
	k.created, k.modified = e.created, e.modified
	life, _ := e.life()
	l, on := k.leaseLocked(life, t.pool.term(life, e.Term)), k.leaseLocked(e.lease, t.pool.term(e.lease, e.Term))
	if l.id == on.id {
		l = on // one lease stays one value, also if it was not known
	}
	k.life, k.on = l, on
}

// lastSeen returns the key and revisions of a claim as they were last seen in etcd. It returns nil if the key was never
// seen, or if the claim has ended.
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

// asks counts a request about a claim, and about the leases to, until answered is called. It fails with ErrGone if the
// claim has ended.
func (t *claims) asks(k *localClaim, to ...*lease) (answered func(), err error) {
	t.mu.Lock() // so that either the claim has ended, or its end finds the request counted
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

// leaves ends the subscription of a claim that is about to leave, so that it does not hear of its own deletion.
func (t *claims) leaves(k *localClaim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.becomeLocked(claimLeaving)
	t.watches.unsubscribeLocked(k)
}

// hang notes the claim's lease and the key's lease after a change. If the claim's lease is a new one, the old leases are
// discarded. If the claim has ended meanwhile, the new leases run out.
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

// written notes the revision at which a claim's key was rewritten.
func (t *claims) written(k *localClaim, modified int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.modified = max(k.modified, modified)
}

// tell copies a local claim into a seat, and returns the key's lease.
func (t *claims) tell(k *localClaim, s *seat) (on *lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.key, s.has = k.key, hold{grantOf(k.life), grantOf(k.on)}
	if s.known = k.entered(); s.known {
		s.created, s.modified = k.created, k.modified
	}
	return k.on
}
