package etcd

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// mostReclaimed is how many claims of earlier runs one transaction removes.
const mostReclaimed = 64

// Enter is one transaction, or a part of one, where nobody stands in line, and two for a claim that comes to stand behind others.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	bounded, done, err := d.begin(ctx)
	if err != nil {
		return driver.Place{}, err
	}
	defer done()
	began := boottime.Now()
	p, k := driver.Place{}, d.recall(c.ID)
	stood := c.Ticket != 0 || d.lastSeen(k) != nil
	if stood {
		p, err = d.again(bounded, c, k, began)
	}
	if !stood || c.Ticket == 0 && errors.Is(err, driver.ErrGone) {
		p, err = d.fresh(bounded, c, began)
	}
	err = d.explain(ctx, err)
	if !stood && d.lastSeen(d.recall(c.ID)) != nil {
		err = driver.Afterwards(err) // what failed came after the request that has let it in
	}
	return p, err
}

// fresh puts a claim into its queue that is not known to stand there.
func (d *Driver) fresh(ctx context.Context, c *driver.Claim, began time.Duration) (driver.Place, error) {
	v := valueOf(c)
	text, err := v.encode()
	if err != nil {
		return driver.Place{}, driver.Refused(err)
	}
	k, err := d.outfit(ctx, c, d.pool.take)
	if err != nil {
		return driver.Place{}, err
	}
	kept := d.keepMeanwhile(ctx, k.home)
	defer func() { _ = kept() }() // it ends with ctx, which is not to end under it
	another := func() (err error) {
		d.end(k, claimLost)
		k, err = d.outfit(ctx, c, d.pool.grant)
		_ = kept()
		kept = func() error { return nil }
		return err
	}
	q, seen := queue(nil), int64(0) // as if nobody were there: the transaction finds out
	for again := false; ; {
		if i := q.find(c.ID); i >= 0 {
			return d.adopt(ctx, c, q, i, seen, began)
		}
		if p, err := refuse(c, q); p != nil || err != nil {
			d.end(k, claimGone)
			return *cmp.Or(p, &driver.Place{}), err
		}
		if q.at(k.key) >= 0 { // another client's
			if err := another(); err != nil {
				return driver.Place{}, err
			}
		}
		r, err := d.join(ctx, c, k, q, seen, text)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) && !again {
			// It ran out, or somebody revoked it, so that no earlier request for it can be applied any more either.
			again = true
			if err := another(); err != nil {
				return driver.Place{}, err
			}
			continue
		}
		if err != nil {
			return driver.Place{}, err
		}
		seen = r.Header.Revision
		if r.Succeeded && len(q) == 0 {
			q = queue{{value: v.whole(), key: k.key, created: seen, modified: seen, lease: k.home.id}}
		} else {
			q = queueOf(r.Responses[len(r.Responses)-1].GetResponseRange().Kvs)
		}
		if !r.Succeeded {
			continue
		}
		i := q.find(c.ID)
		if i < 0 {
			return driver.Place{}, errors.New("etcd answered without the key that it put")
		}
		d.sight(k, &q[i])
		if have := q[:i].capacity(); i > 0 && have != c.Capacity {
			return driver.Place{}, d.retract(ctx, c, k, &q[i], have)
		}
		if err := kept(); err != nil {
			return driver.Place{}, d.orGone(k, err)
		}
		return d.placed(ctx, c, k, q, i, seen, began)
	}
}

// outfit gives a claim a lease and a key, unless it has them from an earlier request.
func (d *Driver) outfit(ctx context.Context, c *driver.Claim, from func(context.Context, time.Duration) (*lease, error)) (*claim, error) {
	if k := d.recall(c.ID); k != nil {
		return k, nil
	}
	home, err := from(ctx, d.seconds(c.TTL))
	if err != nil {
		return nil, &unsent{err}
	}
	return d.remember(newClaim(c, d.folder(c.Name)+hexOf(home.id), home)), nil
}

// keepMeanwhile keeps a lease alive that has been in the pool for a while, at the same time as the claim enters. What it
// returns waits for the answer.
func (d *Driver) keepMeanwhile(ctx context.Context, l *lease) func() error {
	if !l.stale(boottime.Now()) {
		return func() error { return nil }
	}
	return inBackground(func() error { return d.pulse.one(ctx, l) })
}

// inBackground begins f, and returns what waits for its answer.
func inBackground(f func() error) func() error {
	answer := make(chan error, 1)
	go func() { answer <- f() }()
	return sync.OnceValue(func() error { return <-answer })
}

// refuse tells a claim its place, or the error, if it cannot join a queue.
func refuse(c *driver.Claim, q queue) (*driver.Place, error) {
	rest := q.without(c)
	switch {
	case len(rest) == 0:
		return nil, nil
	case rest.capacity() != c.Capacity:
		return nil, &driver.CapacityError{Have: rest.capacity(), Want: c.Capacity}
	case c.Try && !rest.fits(c.Weight, c.Capacity):
		p := q.place(len(q))
		return &p, nil
	}
	return nil, nil
}

// without returns the queue without what the claim reclaims.
func (q queue) without(c *driver.Claim) queue {
	var rest queue
	for i := range q {
		if !reclaims(c, &q[i]) {
			rest = append(rest, q[i])
		}
	}
	return rest
}

// join puts the key, unless the queue is not as it was seen: then the answer is the queue as it is. For a claim that
// waits in any case it does not matter who else has come.
func (d *Driver) join(ctx context.Context, c *driver.Claim, k *claim, q queue, seen int64, text string) (*clientv3.TxnResponse, error) {
	folder := d.folder(c.Name)
	put := clientv3.OpPut(k.key, text, clientv3.WithLease(clientv3.LeaseID(k.home.id)))
	otherwise := []clientv3.Op{wholeQueue(folder)}
	nobodySince := clientv3.Compare(clientv3.CreateRevision(folder), "<", seen+1).WithPrefix()
	if len(q) == 0 { // there is nothing to read but what is put
		return d.change(ctx, k, func() (*clientv3.TxnResponse, error) {
			return d.batch.do(ctx, folder, []clientv3.Cmp{nobodySince}, []clientv3.Op{put}, otherwise)
		})
	}
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k.key), "=", 0)}
	var then []clientv3.Op
	for i := range q {
		if e := &q[i]; reclaims(c, e) && len(then) < mostReclaimed {
			conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(e.key), "=", e.modified))
			then = append(then, clientv3.OpDelete(e.key))
		}
	}
	if c.Try || len(then) > 0 {
		conditions = append(conditions, nobodySince)
	}
	return d.change(ctx, k, func() (*clientv3.TxnResponse, error) {
		return d.commit(ctx, conditions, append(then, put, wholeQueue(folder)), otherwise)
	})
}

// retract takes a claim out again that entered just when its queue had become one of another capacity.
func (d *Driver) retract(ctx context.Context, c *driver.Claim, k *claim, e *entry, have int64) error {
	if err := d.remove(ctx, c, k, e); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	d.end(k, claimGone)
	return &driver.CapacityError{Have: have, Want: c.Capacity}
}

// adopt is for a claim that was found in its queue: an earlier request put it there, of this driver or of another.
func (d *Driver) adopt(ctx context.Context, c *driver.Claim, q queue, i int, seen int64, began time.Duration) (driver.Place, error) {
	if !is(c, &q[i]) {
		return driver.Place{}, driver.ErrGone
	}
	k := d.found(c, &q[i])
	if err := d.alive(ctx, k); err != nil {
		return driver.Place{}, d.orGone(k, err)
	}
	return d.placed(ctx, c, k, q, i, seen, began)
}

// again finds a claim where it stands and keeps its leases alive.
func (d *Driver) again(ctx context.Context, c *driver.Claim, k *claim, began time.Duration) (driver.Place, error) {
	ticket, exact := c.Ticket, true
	alive := func() error { return nil }
	if k != nil {
		if e := d.lastSeen(k); e != nil {
			ticket = e.created
		}
		exact = !d.expect(k) || c.Weight != driver.All
		alive = inBackground(func() error { return d.alive(ctx, k) })
	}
	r, err := d.read(ctx, d.self(c, k, ticket), d.ahead(c.Name, ticket, exact))
	lives := alive()
	if err != nil {
		return driver.Place{}, err
	}
	self, ahead := r.Responses[0].GetResponseRange(), r.Responses[1].GetResponseRange()
	if len(self.Kvs) == 0 {
		return driver.Place{}, d.vanished(k, lives)
	}
	e := entryOf(self.Kvs[0])
	if !is(c, &e) || e.created != ticket {
		return driver.Place{}, d.vanished(k, lives)
	}
	if k == nil {
		k = d.found(c, &e)
		lives = d.alive(ctx, k)
	}
	if lives != nil {
		return driver.Place{}, d.orGone(k, lives)
	}
	d.sight(k, &e)
	q := append(queueOf(ahead.Kvs), e)
	p, err := d.placed(ctx, c, k, q, len(q)-1, r.Header.Revision, began)
	if !exact && err == nil {
		// Only the head was asked for, which decides alone for who takes the whole lock. The rest has been heard.
		p.Ahead = d.countAhead(k, q[:len(q)-1])
	}
	return p, err
}
