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

	home *lease // that the key is named for; the claim lives as long as this
	long *lease // that the key hangs on while it holds and has a lock-delay; nil if it hangs on home
	own  bool   // home was granted to this driver

	// A request about the key has an unknown outcome, and may be applied yet. The leases that the claim has serve no other
	// claim then, since that would have the same key. Guarded by Driver.mu; see change.
	unsure bool

	created, modified int64 // revisions of the key; 0 means that it is not known to have entered

	released bool // its leases were given back; guarded by Driver.mu
	follow        // guarded by Driver.mu
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
			d.forgetLocked(k)
		}
	}
	d.swept = len(d.known)
}

// forget ends what the driver does for a claim.
func (d *Driver) forget(k *claim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(k)
}

func (d *Driver) forgetLocked(k *claim) {
	d.unfollowLocked(k)
	if d.known[k.id] == k {
		delete(d.known, k.id)
	}
}

// change sends a transaction that puts, moves or deletes the key of a claim. All such transactions go through here: if the
// outcome of one is unknown, the claim's leases are never used for another claim.
func (d *Driver) change(ctx context.Context, k *claim, send func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	r, err := send()
	if err != nil && !driver.NotApplied(d.explain(ctx, err)) {
		d.mu.Lock()
		k.unsure = true
		d.mu.Unlock()
	}
	return r, err
}

// release gives the leases of a claim back whose key is gone. They serve others, unless a request about the key may be
// applied yet: then they are revoked, and such a request finds nothing to act on.
//
// It does nothing the second time: a claim that leaves while it is renewed is found gone by both, and a lease that was
// given back twice would serve two.
func (d *Driver) release(k *claim) {
	d.mu.Lock()
	before, back := k.released, d.pool.put
	k.released = true
	if k.unsure {
		back = func(l *lease) { d.pool.discard(l) }
	}
	d.forgetLocked(k)
	d.mu.Unlock()
	if before {
		return
	}
	if k.long != nil {
		back(k.long)
	}
	if k.own {
		back(k.home)
	}
}

// found remembers a claim by its key.
func (d *Driver) found(c *driver.Claim, e *entry) *claim {
	id, _ := e.home()
	k := d.remember(&claim{id: c.ID, name: c.Name, key: e.key, home: &lease{id: id}})
	if k.key != e.key {
		// It is another driver's key by the same id: that of ours, if there was one, is gone.
		d.release(k)
		k = d.remember(&claim{id: c.ID, name: c.Name, key: e.key, home: &lease{id: id}})
	}
	k.stands(e)
	return k
}

// stands notes where the key of the claim is.
func (k *claim) stands(e *entry) {
	k.created, k.modified = e.created, e.modified
	switch {
	case e.lease == k.home.id:
		k.long = nil
	case k.long == nil || k.long.id != e.lease:
		k.long = &lease{id: e.lease}
	}
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
	if err := d.pulse.one(ctx, k.home); err != nil || k.long == nil {
		return err
	}
	return d.pulse.one(ctx, k.long)
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
