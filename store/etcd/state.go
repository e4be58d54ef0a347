package etcd

import (
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

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
func (k *localClaim) become(next state) bool {
	if !slices.Contains(moves[k.state], next) {
		return false
	}
	k.state = next
	return true
}

// ended reports that nothing follows.
func (k *localClaim) ended() bool { return k.state >= claimKept }

// entered reports whether the key of the claim is known to have been in etcd, and was not found to be gone.
func (k *localClaim) entered() bool { return claimFound <= k.state && k.state <= claimLeaving }

// placed reports whether an answer of etcd has told where the claim stands.
func (k *localClaim) placed() bool {
	return k.state == claimWaiting || k.state == claimHolding || k.state == claimDeleted
}

// alarms reports whether the claim's client wants to hear at once that its key is gone. One that waits finds out by itself.
func (k *localClaim) alarms() bool { return k.state == claimFound || k.state == claimHolding }

// A localClaim is what the driver remembers of a claim that entered by it, or that it renews. Any other driver can find out
// the same from the key.
type localClaim struct {
	id, name string
	key      string
	home     *lease // that the key is named for
	whole    bool   // it takes all of the capacity

	// Guarded by Driver.mu:
	state             state  // moved by become
	life              *lease // that the claim lives by: home, until there is a new leader
	on                *lease // that the key hangs on: life, or a longer one while it holds with a lock-delay
	created, modified int64  // revisions of the key, once it was found
	listener
}

func newLocalClaim(c *driver.Claim, key string, home *lease) *localClaim {
	k := &localClaim{id: c.ID, name: c.Name, key: key, home: home, life: home, on: home, whole: c.Weight == c.Capacity}
	k.turn = make(chan struct{}, 1)
	return k
}

func (k *localClaim) watchKey() watchKey { return watchKey{k.name, k.whole} }

// recall returns what is known of a claim, or nil.
func (d *Driver) recall(id string) *localClaim {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[id]
}

// remember returns what is known of a claim, to begin with this.
func (d *Driver) remember(k *localClaim) *localClaim {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.known[k.id]; old != nil {
		return old
	}
	if d.limit.Reached(len(d.known)) {
		d.sweepLocked()
	}
	d.known[k.id] = k
	return k
}

// sweepLocked forgets claims that ran out long ago, and that nobody asked for again.
func (d *Driver) sweepLocked() {
	now := boottime.Now()
	for _, k := range d.known {
		if ttl, left := k.life.time(now); left < -ttl {
			d.endLocked(k, claimLost)
		}
	}
	d.limit.Swept(len(d.known))
}

// end ends a claim, and what the driver does for it. Only the first end counts: a claim that leaves while it is renewed is
// found gone by both, and a lease that was given back twice would serve two claims.
func (d *Driver) end(k *localClaim, how state) {
	d.mu.Lock()
	ended, leases := d.endLocked(k, how), k.leasesLocked()
	d.mu.Unlock()
	if !ended { // a call that was told so later
		return
	}
	switch how {
	case claimGone: // nothing hangs on its leases any more
		for _, l := range leases {
			d.pool.put(l)
		}
	case claimKept: // the key that stays hangs on another lease; it is named for one of these, which must not name a second
		d.pool.discard(leases...)
	}
	// What is left of a claim whose lease is no more runs out by itself: its key may be in its lock-delay.
}

// dismiss ends a claim whose Enter has failed, unless it is known to be in etcd: nobody takes out what was not put. If a
// request may have put it, or may put it yet, its client enters again or leaves, and until then the claim hears nothing: to
// revoke its lease would end it under a client that finds it.
func (d *Driver) dismiss(k *localClaim) {
	if k == nil {
		return
	}
	ended := false
	d.mu.Lock() // so that another call for the claim has noted its request, or finds the claim ended
	switch {
	case k.state != claimAsking:
	case k.home.doubtful():
		d.unsubscribeLocked(k)
	default:
		ended = d.endLocked(k, claimGone)
	}
	d.mu.Unlock()
	if ended {
		d.pool.put(k.home)
	}
}

func (d *Driver) endLocked(k *localClaim, how state) bool {
	if !k.become(how) {
		return false
	}
	d.unsubscribeLocked(k)
	if d.known[k.id] == k {
		delete(d.known, k.id)
	}
	return true
}

// leases returns the lease that a claim lives by, and that which its key hangs on: mostly the same.
func (d *Driver) leases(k *localClaim) (life, on *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return k.life, k.on
}

// leasesLocked returns all leases of a claim, each once.
func (k *localClaim) leasesLocked() []*lease {
	all := []*lease{k.home}
	for _, l := range []*lease{k.life, k.on} {
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// leaseLocked returns the lease of a claim with this id, or another driver's, of the term that the claim's key tells.
func (k *localClaim) leaseLocked(id int64, term uint64) *lease {
	for _, l := range k.leasesLocked() {
		if l.id == id {
			return l
		}
	}
	return foreignLease(id, term)
}

// meet returns what is known of a claim whose key was found. Another driver's is not remembered: only Renew has the driver
// look after one.
func (d *Driver) meet(c *driver.Claim, e *entry) *localClaim {
	k := d.recall(c.ID)
	if k != nil && k.key != e.key {
		d.end(k, claimGone) // it is another driver's key by the same id: that of ours, if there was one, is gone
		k = nil
	}
	if k == nil {
		k = claimAt(c, e)
	}
	d.sight(k, e)
	return k
}

// claimAt is a claim whose key another driver put.
func claimAt(c *driver.Claim, e *entry) *localClaim {
	id, _ := e.home()
	return newLocalClaim(c, e.key, foreignLease(id, e.Term))
}

// sight notes where the key of the claim is. What was read before the key was last changed says nothing new.
func (d *Driver) sight(k *localClaim, e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.become(claimFound)
	if e.modified < k.modified {
		return
	}
	k.created, k.modified = e.created, e.modified
	life, _ := e.life()
	k.life, k.on = k.leaseLocked(life, e.Term), k.leaseLocked(e.lease, e.Term)
}

// lastSeen returns the entry of a claim as it was last seen in etcd, or nil if it never was.
func (d *Driver) lastSeen(k *localClaim) *entry {
	if k == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !k.entered() {
		return nil
	}
	return &entry{key: k.key, created: k.created, modified: k.modified}
}
