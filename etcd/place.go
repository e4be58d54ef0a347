package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// self reads the claim's own key; ahead what stands before it, or, unless exact, the head alone.
func (d *Driver) self(c *driver.Claim, k *claim, ticket int64) clientv3.Op {
	if k != nil {
		return clientv3.OpGet(k.key)
	}
	return clientv3.OpGet(d.folder(c.Name), clientv3.WithPrefix(), clientv3.WithMinCreateRev(ticket), clientv3.WithMaxCreateRev(ticket))
}

func (d *Driver) ahead(name string, ticket int64, exact bool) clientv3.Op {
	options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithMaxCreateRev(ticket - 1)}
	if !exact {
		options = append(options, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
	}
	return clientv3.OpGet(d.folder(name), options...)
}

// placed tells where entry i of the queue stands, whose leases are alive. One that holds with a lock-delay is hung on a
// lease longer by the delay before it is told.
func (d *Driver) placed(ctx context.Context, c *driver.Claim, k *claim, q queue, i int, seen int64, began time.Duration) (driver.Place, error) {
	p := q.place(i)
	if home, on := d.leases(k); p.Holds && c.Delay > 0 && on == home {
		if err := d.lengthen(ctx, c, k, &q[i]); err != nil {
			return driver.Place{}, d.orGone(k, err)
		}
	}
	p.TTL = k.confirmed(c, began)
	d.settle(c, k, q, i, seen, p.Holds)
	return p, nil
}

// lengthen hangs a claim's key on a lease that is longer by the lock-delay. The key keeps its create revision, and the
// claim lives as long as the lease that it is named for.
func (d *Driver) lengthen(ctx context.Context, c *driver.Claim, k *claim, e *entry) error {
	ttl, _ := k.home.time(0)
	long, err := d.pool.take(ctx, ttl+d.seconds(c.Delay))
	if err != nil {
		return err
	}
	if long.stale(boottime.Now()) {
		if err := d.pulse.one(ctx, long); err != nil {
			return err
		}
	}
	modified, err := d.move(ctx, k, e, long)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k.on, k.modified = long, modified
	return nil
}

// move hangs a key on a lease from the pool, and writes its value, unless the key has changed.
func (d *Driver) move(ctx context.Context, k *claim, e *entry, to *lease) (modified int64, err error) {
	defer func() {
		if err != nil {
			d.pool.spare(to)
		}
	}()
	text, err := e.encode()
	if err != nil {
		return 0, err
	}
	r, err := d.change(ctx, k, func() (*clientv3.TxnResponse, error) {
		return d.commit(ctx,
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.key), "=", e.modified)},
			[]clientv3.Op{clientv3.OpPut(e.key, text, clientv3.WithLease(clientv3.LeaseID(to.id)))}, nil)
	}, to)
	switch {
	case err != nil:
		return 0, err
	case !r.Succeeded:
		return 0, errChanged
	}
	return r.Header.Revision, nil
}

// errChanged says that a key is not as it was read: another request for the same claim came between.
var errChanged = errors.New("the claim's key changed while it was used")

// vanished is the error for a claim that is not in its queue, and ends what was done for it.
func (d *Driver) vanished(k *claim, lives error) error {
	switch {
	case k == nil:
		return driver.ErrGone
	case errors.Is(lives, driver.ErrSession):
		d.end(k, claimLost)
		return lives
	}
	d.end(k, claimGone)
	return driver.ErrGone
}

// orGone forgets a claim whose lease is no more.
func (d *Driver) orGone(k *claim, err error) error {
	if errors.Is(err, driver.ErrGone) {
		d.end(k, claimLost)
	}
	return err
}
