package etcd

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A claim is what the driver remembers of a claim that entered by it, or that it found. Any other driver can find out the
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

// remember returns what is known of a claim, to begin with what has been found.
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

// change sends a transaction that puts, moves or deletes the key of a claim; to are the leases that it hangs the key on,
// beside the one that the key is named for. All such transactions go through here: while the outcome of one is not known, it
// may be applied at any moment, and these leases serve no other claim. Nothing is sent about a claim that is over.
func (d *Driver) change(
	ctx context.Context, k *claim, send func() (*clientv3.TxnResponse, error), to ...*lease,
) (*clientv3.TxnResponse, error) {
	answered, err := d.asks(k, to...)
	if err != nil {
		return nil, err
	}
	r, err := send()
	if err == nil || driver.NotApplied(d.explain(ctx, err)) {
		answered()
	}
	return r, err
}

// asks notes that a request is sent about a claim. What it returns notes that the outcome is known.
func (d *Driver) asks(k *claim, to ...*lease) (answered func(), err error) {
	d.mu.Lock() // so that either the claim is over, or its end finds the request noted
	defer d.mu.Unlock()
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

// leases returns the lease that a claim lives by, and that which its key hangs on: mostly the same.
func (d *Driver) leases(k *claim) (home, on *lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return k.home, k.on
}

// found remembers a claim by its key.
func (d *Driver) found(c *driver.Claim, e *entry) *claim {
	k := d.remember(claimAt(c, e))
	if k.key != e.key {
		// It is another driver's key by the same id: that of ours, if there was one, is gone.
		d.end(k, claimGone)
		k = d.remember(claimAt(c, e))
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

// find returns the entry of a claim that is not known, or [driver.ErrGone].
func (d *Driver) find(ctx context.Context, c *driver.Claim) (*entry, error) {
	options := []clientv3.OpOption{clientv3.WithPrefix()}
	if c.Ticket > 0 {
		options = append(options, clientv3.WithMinCreateRev(c.Ticket), clientv3.WithMaxCreateRev(c.Ticket))
	}
	r, err := d.read(ctx, clientv3.OpGet(d.folder(c.Name), options...))
	if err != nil {
		return nil, err
	}
	q := queueOf(r.Responses[0].GetResponseRange().Kvs)
	if i := q.find(c.ID); i >= 0 && is(c, &q[i]) {
		return &q[i], nil
	}
	return nil, driver.ErrGone
}

// alive keeps the leases of a claim alive: first the one that it lives by, so that one that came too late changes
// nothing.
func (d *Driver) alive(ctx context.Context, k *claim) error {
	home, on := d.leases(k)
	if err := d.pulse.one(ctx, home); err != nil || on == home {
		return err
	}
	return d.pulse.one(ctx, on)
}

// confirmed returns how much of its lease a claim has for sure, from a moment on: at most what it asked for, unless the
// lease was longer before.
func (k *claim) confirmed(c *driver.Claim, from time.Duration) time.Duration {
	ttl, left := k.home.time(from)
	if c.TTL+time.Second > ttl {
		return min(left, c.TTL)
	}
	return left
}
