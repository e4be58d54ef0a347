package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/keyqueue"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// judge tells where a claim stands that was found in its queue, or was put there. One that holds with a lock-delay is hung
// on a lease longer by the delay before it is told.
func (d *Driver) judge(ctx context.Context, a *attempt) (driver.Place, error) {
	c, e := a.c, &a.q[a.at]
	if !is(c, e) {
		return driver.Place{}, d.over(ctx, a.k, e, nil)
	}
	if !a.put {
		a.k = d.meet(c, e)
	}
	if verdict, why := a.q.Judge(c, a.at); verdict == keyqueue.Refused {
		// A claim that waits in any case is put whoever else has come. Meanwhile the queue had run empty, and has begun anew.
		return driver.Place{}, d.retract(ctx, a, why)
	}
	if !a.put {
		if err := d.sustain(ctx, c, a.k, e, a.up, a.term); err != nil {
			return driver.Place{}, d.orLost(a.k, err)
		}
	}
	p := a.q.Place(a.at)
	if life, on := d.leases(a.k); p.Holds && c.Delay > 0 && on == life {
		if err := d.lengthen(ctx, c, a.k, e); err != nil {
			return driver.Place{}, d.orLost(a.k, err)
		}
	}
	p.TTL = d.left(a.k, c, a.began)
	d.noteQueue(c, a.k, a.q, a.at, !a.head || a.at == 0, a.seen, p.Holds)
	if a.head {
		p.Ahead = d.countAhead(a.k, a.q[:a.at])
	}
	return p, nil
}

// noteQueue notes where a claim stands: at i in a queue, as it was at a revision. Unless that is the whole of what stands ahead, it
// is the head of that, which says nothing of the others.
func (d *Driver) noteQueue(c *driver.Claim, k *localClaim, q queue, i int, whole bool, seen int64, holds bool) {
	d.mu.Lock()
	gone, tell := false, d.endangered
	if d.known[k.id] == k {
		knew := k.placed()
		if holds {
			k.become(claimHolding)
		} else {
			k.become(claimWaiting)
		}
		switch {
		case k.knows == hearing && knew: // it has heard more than this answer tells
		case whole:
			gone = d.readAheadLocked(c, k, q[:i], q[:i].Weights(c.Capacity), seen)
		default: // what it had heard was lost while the head was read
			d.deafenLocked(k)
			k.nudge()
		}
		if holds {
			d.watchSoonLocked(k, watchAfter)
		}
	}
	d.mu.Unlock()
	if gone {
		tell(k.id)
	}
}

// readAheadLocked notes what is ahead of a claim by an answer. It reports whether its client is to be told that its key has
// gone since.
func (d *Driver) readAheadLocked(c *driver.Claim, k *localClaim, ahead queue, weights []int64, seen int64) (gone bool) {
	if k.knows == hearing {
		d.unsubscribeLocked(k) // it has heard of keys of which it did not know that they were ahead
	}
	k.seen = seen
	k.ahead, k.over = make(map[string]before, len(ahead)), c.Weight-c.Capacity
	for i, w := range weights {
		k.ahead[ahead[i].key] = before{w, ahead[i].created}
		k.over += w
	}
	if k.knows != gathering {
		k.knows = informed
		return false
	}
	// What was told while the answer was on its way may be older than the answer, or newer: hear knows by the revision.
	early := k.early
	k.knows, k.early = hearing, nil
	for _, e := range early {
		alarms := k.alarms()
		gone = k.hear(e) && alarms || gone
	}
	return gone
}

// deafenLocked has a claim know nothing of what is ahead, so that the next Enter reads all of that.
func (d *Driver) deafenLocked(k *localClaim) {
	d.unsubscribeLocked(k)
	k.knows, k.seen = deaf, 0
}

// watchSoonLocked has a claim that holds hear of it when its key is deleted.
func (d *Driver) watchSoonLocked(k *localClaim, after time.Duration) {
	if k.by == nil && k.watching == nil {
		k.watching = time.AfterFunc(after, func() { d.watchOver(k) })
	}
}

// retract takes a claim out again that entered just when its queue had become one of another capacity, and returns why.
func (d *Driver) retract(ctx context.Context, a *attempt, why error) error {
	if err := d.remove(ctx, a.c, a.k, &a.q[a.at]); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	d.end(a.k, claimGone)
	return why
}

// lengthen hangs a claim's key on a lease that is longer by the lock-delay. The key keeps its create revision, and the
// claim lives as long as the lease that it is named for. A lease of the pool that somebody has revoked is none that the
// claim lives by, so another is taken.
func (d *Driver) lengthen(ctx context.Context, c *driver.Claim, k *localClaim, e *entry) (err error) {
	life, _ := d.leases(k)
	ttl, _ := life.time(0)
	for range 1 + mostIdle {
		var long *lease
		if long, err = d.pool.take(ctx, ttl+d.seconds(c.Delay)); err != nil {
			return err
		}
		var up *upkeep
		if long.stale(boottime.Now()) {
			up = &upkeep{life: long, on: long}
			up.lifeKept, err = d.keepAliver.one(ctx, long)
		}
		var answer *pb.ResponseHeader
		if err == nil {
			answer, err = d.move(ctx, k, e, life, long)
		}
		switch {
		case err == nil:
			up.confirm(answer.RaftTerm)
			d.mu.Lock()
			defer d.mu.Unlock()
			k.on, k.modified = long, e.modified
			return nil
		case !d.revoked(ctx, err):
			return err
		}
		long.become(leaseOver)
	}
	return err
}

// revoked reports whether a request failed because a lease is no more.
func (d *Driver) revoked(ctx context.Context, err error) bool {
	return errors.Is(err, driver.ErrSession) || errors.Is(d.explain(ctx, err), driver.ErrSession)
}

// over ends what is done for a claim that is not in its queue, and returns the error that says so. There may be an entry by
// its key or its id; lives is what was heard of the lease that it lives by.
func (d *Driver) over(ctx context.Context, k *localClaim, e *entry, lives error) error {
	ours := k != nil && e != nil && e.key == k.key
	switch {
	case k == nil:
	case errors.Is(lives, driver.ErrSession):
		d.end(k, claimLost)
		return lives
	case ours && e.Left:
		d.end(k, claimKept) // by another client: the key stays, and is named for our lease
	case ours && !e.foreign && e.ID == k.id && !d.isLate(k, e):
		// It stands, and was asked for by another ticket.
	case ours && !e.foreign && e.ID == k.id:
		if err := d.removeLate(ctx, k, e); err != nil {
			return err
		}
		d.end(k, claimGone)
	default:
		d.end(k, claimGone)
	}
	return driver.ErrGone
}

// isLate reports whether the key of a claim was put once more after the claim had gone: by an earlier Enter that came late.
func (d *Driver) isLate(k *localClaim, e *entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return k.created != 0 && k.created != e.created
}

// removeLate deletes a key that was put too late, before anybody is told that the claim is gone: nobody holds by that key,
// and it would keep everybody out until its lease ends.
func (d *Driver) removeLate(ctx context.Context, k *localClaim, e *entry) error {
	_, err := d.change(ctx, k, e.modified, func() (*clientv3.TxnResponse, error) {
		return d.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.created)},
			[]clientv3.Op{clientv3.OpDelete(e.key)}, nil)
	})
	return err
}

// orLost ends a claim whose lease is no more.
func (d *Driver) orLost(k *localClaim, err error) error {
	if errors.Is(err, driver.ErrGone) {
		d.end(k, claimLost)
	}
	return err
}

// left returns how much of its lease a claim has for sure, from a moment on: at most what it asked for, unless the lease was
// longer before.
func (d *Driver) left(k *localClaim, c *driver.Claim, from time.Duration) time.Duration {
	life, _ := d.leases(k)
	ttl, left := life.time(from)
	if c.TTL+time.Second > ttl {
		return min(left, c.TTL)
	}
	return left
}
