package etcd

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// mostReclaimed is how many claims of earlier runs one transaction removes.
const mostReclaimed = 64

// apply puts the key of a claim, unless the queue is not as admit saw it. It reports whether it did; the attempt has the
// queue as it is now.
func (d *Driver) apply(ctx context.Context, a *attempt) (bool, error) {
	earlier, most := a.q.Earlier(a.c), min(mostReclaimed, int(d.wire.atOnce.Load()))
	if len(earlier) > most {
		return false, d.makeRoom(ctx, a, earlier[:most])
	}
	r, err := d.join(ctx, a)
	if d.wire.tooMany(err, len(earlier)) {
		return false, nil
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) && !a.granted {
		// It ran out, or somebody revoked it, so that no earlier request for it can be applied any more either.
		d.strip(a)
		return false, nil
	}
	if errors.Is(err, errOtherStore) && a.k.home.become(leaseOver) {
		d.pool.revoke(ctx, []*lease{a.k.home}) // the key may be there, in the way of those who opened this store
	}
	if err != nil {
		return false, err
	}
	a.seen = r.Header.Revision
	if r.Succeeded && len(r.Responses) == 1 { // it read nothing, since there is nothing but what it put
		a.q = queue{{value: a.value.whole(), key: a.k.key, created: a.seen, modified: a.seen, lease: a.k.home.id}}
	} else {
		a.q = queueOf(r.Responses[len(r.Responses)-1].GetResponseRange().Kvs)
	}
	if !r.Succeeded {
		return false, nil
	}
	a.put, a.in = true, true
	if a.at = a.q.Find(a.c.ID); a.at < 0 {
		return false, errors.New("etcd answered without the key that it put")
	}
	if a.q[a.at].key != a.k.key {
		return true, d.double(ctx, a)
	}
	d.claims.sight(a.k, &a.q[a.at])
	a.up.confirm(r.Header.RaftTerm)
	return true, nil
}

// double takes the key of a claim out again that stands by another key already, which another driver has put since the queue was
// read.
func (d *Driver) double(ctx context.Context, a *attempt) error {
	own := at(a.q, a.k.key)
	if err := d.remove(ctx, a.c, a.k, &a.q[own]); err != nil && !errors.Is(err, driver.ErrGone) {
		d.claims.end(a.k, claimKept) // the key goes with its lease
		return err
	}
	d.claims.end(a.k, claimGone)
	a.q = slices.Delete(a.q, own, own+1)
	a.k, a.up, a.put = nil, nil, false
	return nil
}

// join puts the key if the queue is as it was seen; else its answer is the queue as it is. For a claim that waits in any
// case it does not matter who else has come.
func (d *Driver) join(ctx context.Context, a *attempt) (*clientv3.TxnResponse, error) {
	text, err := a.value.encode()
	if err != nil {
		return nil, driver.Refused(err)
	}
	folder := d.wire.folder(a.c.Name)
	put := clientv3.OpPut(a.k.key, text, clientv3.WithLease(clientv3.LeaseID(a.k.home.id)))
	otherwise := []clientv3.Op{wholeQueue(folder)}
	// Of all that enter an empty queue at once, one changes it, and the others are told how it is. The same keeps one that
	// tries from a queue that has grown since it was read, and one that reclaims from coming to hold beside a third.
	first := nobodySince(folder, a.seen)
	if len(a.q) == 0 {
		return d.change(ctx, a.k, 0, func() (*clientv3.TxnResponse, error) {
			return d.batch.do(ctx, folder, []clientv3.Cmp{first}, []clientv3.Op{put}, otherwise)
		})
	}
	conditions, then := deletes(a.q.Earlier(a.c))
	conditions = append(conditions, missing(a.k.key))
	if a.c.Try || a.c.Reclaim && a.c.Owner != "" {
		conditions = append(conditions, first)
	}
	return d.change(ctx, a.k, 0, func() (*clientv3.TxnResponse, error) {
		return d.wire.commit(ctx, conditions, append(then, put, wholeQueue(folder)), otherwise)
	})
}

// makeRoom removes claims of earlier runs that are too many for the transaction that puts the key, and has the attempt look
// at the queue as it is then.
func (d *Driver) makeRoom(ctx context.Context, a *attempt, earlier queue) error {
	whole := []clientv3.Op{wholeQueue(d.wire.folder(a.c.Name))}
	still, removes := deletes(earlier)
	r, err := d.wire.commit(ctx, still, append(removes, whole...), whole)
	if d.wire.tooMany(err, len(earlier)) {
		return nil
	}
	if err != nil {
		return &unsent{err} // nothing was asked for the claim itself
	}
	a.seen = r.Header.Revision
	a.q = queueOf(r.Responses[len(r.Responses)-1].GetResponseRange().Kvs)
	return nil
}

// deletes returns the operations that delete the keys of claims. If one was kept meanwhile, it is not to be removed.
func deletes(claims queue) (conditions []clientv3.Cmp, then []clientv3.Op) {
	for i := range claims {
		e := &claims[i]
		conditions = append(conditions, unchanged(e.key, e.modified))
		then = append(then, clientv3.OpDelete(e.key))
	}
	return conditions, then
}

// change sends a transaction that puts, moves or deletes the key of a claim, if the key was modified last at the revision was,
// or is not there (0); to are the leases that it hangs the key on, beside the one that the key is named for. All such
// transactions go through here: while the outcome of one is not known, it may be applied at any moment, and these leases serve
// no other claim. Nothing is sent about a claim that is over.
func (d *Driver) change(
	ctx context.Context, k *localClaim, was int64, send func() (*clientv3.TxnResponse, error), to ...*lease,
) (*clientv3.TxnResponse, error) {
	answered, err := d.claims.asks(k, to...)
	if err != nil {
		return nil, err
	}
	r, err := send()
	if errors.Is(err, rpctypes.ErrNoSpace) && d.untouched(ctx, k, was) {
		err = driver.Refused(errFull)
	}
	if err == nil || driver.NotApplied(d.wire.explain(ctx, err)) || d.wire.revoked(ctx, err) {
		answered()
	}
	return r, err
}

// untouched reports whether the key of a claim is certainly as it was. A full etcd gives the same answer whether it has applied
// a transaction or not, but only when that is decided, so the key tells.
func (d *Driver) untouched(ctx context.Context, k *localClaim, was int64) bool {
	r, err := d.wire.read(ctx, clientv3.OpGet(k.key))
	if err != nil {
		return false
	}
	var now int64
	if e := only(r.Responses[0].GetResponseRange().Kvs); e != nil {
		now = e.modified
	}
	return now == was
}

// errFull says that a full etcd has not applied a transaction.
var errFull = errors.New(fullText)

// move hangs a key on a lease, and writes its value, with the lease that the claim lives by, unless the key has changed. If not both
// are had, the new ones are given back.
func (d *Driver) move(ctx context.Context, k *localClaim, e *entry, life, to *lease) (*pb.ResponseHeader, error) {
	was, _ := d.claims.leases(k)
	about := []*lease{to}
	if life != was && life != to {
		about = append(about, life)
	}
	moved := *e
	moved.Term, moved.Lease = min(life.term, to.term), ""
	if id, _ := e.home(); id != life.id {
		moved.Lease = hexOf(life.id)
	}
	text, err := moved.encode()
	if err != nil {
		return nil, err
	}
	r, err := d.change(ctx, k, e.modified, func() (*clientv3.TxnResponse, error) {
		return d.wire.commit(ctx,
			[]clientv3.Cmp{unchanged(e.key, e.modified)},
			[]clientv3.Op{clientv3.OpPut(e.key, text, clientv3.WithLease(clientv3.LeaseID(to.id)))}, nil)
	}, about...)
	if err == nil && !r.Succeeded {
		err = errChanged
	}
	if err == nil {
		*e = moved
		e.modified, e.lease = r.Header.Revision, to.id
		return r.Header, nil
	}
	if !d.wire.revoked(ctx, err) {
		for _, l := range about {
			d.pool.spare(l)
		}
	}
	return nil, err
}

// errChanged says that a key is not as it was read: another request for the same claim came between.
var errChanged = errors.New("the claim's key changed while it was used")
