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
		a.k = d.claims.meet(c, e)
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
	if life, on := d.claims.leases(a.k); p.Holds && c.Delay > 0 && on == life {
		if err := d.lengthen(ctx, c, a.k, e); err != nil {
			return driver.Place{}, d.orLost(a.k, err)
		}
	}
	p.TTL = d.left(a.k, c, a.began)
	d.watches.noteQueue(c, a.k, a.q, a.at, !a.head || a.at == 0, a.seen, p.Holds)
	if a.head {
		p.Ahead = d.watches.countAhead(a.k, a.q[:a.at])
	}
	return p, nil
}

// retract takes a claim out again that entered just when its queue had become one of another capacity, and returns why.
func (d *Driver) retract(ctx context.Context, a *attempt, why error) error {
	if err := d.remove(ctx, a.c, a.k, &a.q[a.at]); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	d.claims.end(a.k, claimGone)
	return why
}

// lengthen hangs a claim's key on a lease that is longer by the lock-delay. The key keeps its create revision, and the
// claim lives as long as the lease that it is named for. A lease of the pool that somebody has revoked is none that the
// claim lives by, so another is taken.
func (d *Driver) lengthen(ctx context.Context, c *driver.Claim, k *localClaim, e *entry) (err error) {
	life, _ := d.claims.leases(k)
	ttl, _ := life.time(0)
	for range 1 + mostIdle {
		var long *lease
		if long, err = d.pool.take(ctx, ttl+d.pool.seconds(c.Delay)); err != nil {
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
		case !d.wire.revoked(ctx, err):
			return err
		}
		long.become(leaseOver)
	}
	return err
}

// revoked reports whether a request failed because a lease is no more.
func (w *wire) revoked(ctx context.Context, err error) bool {
	return errors.Is(err, driver.ErrSession) || errors.Is(w.explain(ctx, err), driver.ErrSession)
}

// over ends what is done for a claim that is not in its queue, and returns the error that says so. There may be an entry by
// its key or its id; lives is what was heard of the lease that it lives by.
func (d *Driver) over(ctx context.Context, k *localClaim, e *entry, lives error) error {
	ours := k != nil && e != nil && e.key == k.key
	switch {
	case k == nil:
	case errors.Is(lives, driver.ErrSession):
		d.claims.end(k, claimLost)
		return lives
	case ours && e.Left:
		d.claims.end(k, claimKept) // by another client: the key stays, and is named for our lease
	case ours && !e.foreign && e.ID == k.id && !d.claims.isLate(k, e):
		// It stands, and was asked for by another ticket.
	case ours && !e.foreign && e.ID == k.id:
		if err := d.removeLate(ctx, k, e); err != nil {
			return err
		}
		d.claims.end(k, claimGone)
	default:
		d.claims.end(k, claimGone)
	}
	return driver.ErrGone
}

// removeLate deletes a key that was put too late, before anybody is told that the claim is gone: nobody holds by that key,
// and it would keep everybody out until its lease ends.
func (d *Driver) removeLate(ctx context.Context, k *localClaim, e *entry) error {
	_, err := d.change(ctx, k, e.modified, func() (*clientv3.TxnResponse, error) {
		return d.wire.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.created)},
			[]clientv3.Op{clientv3.OpDelete(e.key)}, nil)
	})
	return err
}

// orLost ends a claim whose lease is no more.
func (d *Driver) orLost(k *localClaim, err error) error {
	if errors.Is(err, driver.ErrGone) {
		d.claims.end(k, claimLost)
	}
	return err
}

// left returns how much of its lease a claim has for sure, from a moment on: at most what it asked for, unless the lease was
// longer before.
func (d *Driver) left(k *localClaim, c *driver.Claim, from time.Duration) time.Duration {
	life, _ := d.claims.leases(k)
	ttl, left := life.time(from)
	if c.TTL+time.Second > ttl {
		return min(left, c.TTL)
	}
	return left
}
