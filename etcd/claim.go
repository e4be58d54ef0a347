package etcd

import (
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// A claim is what the driver remembers of a claim that entered by it, or that it renews. Any other driver can find out the
// same from the key.
type claim struct {
	id, name string
	key      string
	home     *lease // that the key is named for; the claim lives as long as this

	// Guarded by Driver.mu:
	state             state  // moved by become
	on                *lease // that the key hangs on: home, or a longer one while it holds with a lock-delay
	created, modified int64  // revisions of the key, once it was found
	follow
}

func newClaim(c *driver.Claim, key string, home *lease) *claim {
	return &claim{id: c.ID, name: c.Name, key: key, home: home, on: home, follow: follow{turn: make(chan struct{}, 1)}}
}

// recall returns what is known of a claim, or nil.
func (d *Driver) recall(id string) *claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[id]
}

// remember returns what is known of a claim, to begin with this.
func (d *Driver) remember(k *claim) *claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.known[k.id]; old != nil {
		return old
	}
	if len(d.known) >= 2*d.swept+64 {
		d.sweepLocked()
	}
	d.known[k.id] = k
	return k
}

// sweepLocked forgets claims that ran out long ago, and that nobody asked for again.
func (d *Driver) sweepLocked() {
	now := boottime.Now()
	for _, k := range d.known {
		if ttl, left := k.home.time(now); left < -ttl {
			d.endLocked(k, claimLost)
		}
	}
	d.swept = len(d.known)
}

// end ends a claim, and what the driver does for it. Only the first end counts: a claim that leaves while it is renewed is
// found gone by both, and a lease that was given back twice would serve two claims.
func (d *Driver) end(k *claim, how state) {
	d.mu.Lock()
	ended, on := d.endLocked(k, how), k.on
	d.mu.Unlock()
	if !ended {
		return
	}
	switch how {
	case claimGone: // nothing hangs on its leases any more
		if on != k.home {
			d.pool.put(on)
		}
		d.pool.put(k.home)
	case claimKept: // the key that stays hangs on another lease; it is named for this one, which must not name a second
		d.pool.discard(k.home, on)
	}
	// What is left of a claim whose lease is no more runs out by itself: its key may be in its lock-delay.
}

func (d *Driver) endLocked(k *claim, how state) bool {
	if !k.become(how) {
		return false
	}
	d.unfollowLocked(k)
	if d.known[k.id] == k {
		delete(d.known, k.id)
	}
	return true
}

// leases returns the lease that a claim lives by, and that which its key hangs on: mostly the same.
func (d *Driver) leases(k *claim) (home, on *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return k.home, k.on
}

// meet returns what is known of a claim whose key was found. Another driver's is not remembered: only Renew has the driver
// look after one.
func (d *Driver) meet(c *driver.Claim, e *entry) *claim {
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
func claimAt(c *driver.Claim, e *entry) *claim {
	id, _ := e.home()
	home := foreignLease(id)
	return newClaim(c, e.key, home)
}

// sight notes where the key of the claim is. What was read before the key was last changed says nothing new.
func (d *Driver) sight(k *claim, e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.become(claimFound)
	if e.modified < k.modified {
		return
	}
	k.created, k.modified = e.created, e.modified
	switch e.lease {
	case k.home.id:
		k.on = k.home
	case k.on.id:
	default:
		k.on = foreignLease(e.lease)
	}
}

// lastSeen returns the entry of a claim as it was last seen in etcd, or nil if it never was.
func (d *Driver) lastSeen(k *claim) *entry {
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

// is reports whether the entry is the claim, and it can still be renewed.
func is(c *driver.Claim, e *entry) bool {
	return !e.foreign && e.ID == c.ID && !e.Left && (c.Ticket == 0 || c.Ticket == e.created)
}
