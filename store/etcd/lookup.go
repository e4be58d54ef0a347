package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An attempt is one claim on its way through Enter, in four steps: lookup finds it where it stands; admit says whether it
// may join its queue, and gives it a lease and a key; apply puts the key; judge tells what came of it. If apply finds
// another queue than admit decided by, the way begins anew with that.
type attempt struct {
	c       *driver.Claim
	began   time.Duration
	k       *localClaim // what is known of it, or nil
	granted bool        // its lease was granted for this attempt, so that it has to be there
	value   *value      // what its key is to hold

	q    queue  // as it was read last; at least what stands ahead, or the head of that
	seen int64  // the revision at which it was so; 0 if it was not read yet
	term uint64 // of the leader that has told so, or a later one
	at   int    // where the claim stands in it
	head bool   // of what stands ahead, only the head was read
	put  bool   // this attempt put the key
	in   bool   // the key is in etcd by now, and the client did not know that before

	up *upkeep // what keep-alives told that were answered before the queue was read, or the key put; nil if there were none
}

// Enter is one transaction, or a part of one, where nobody stands in line, and two for a claim that comes to stand behind
// others. For a claim that waits it is a keep-alive, and then one read.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return driver.Place{}, err
	}
	defer done()
	a := &attempt{c: c, began: boottime.Now(), k: d.claims.of(c.ID)}
	p, err := d.enter(bounded, a)
	if err != nil {
		err = d.wire.explain(ctx, err)
		d.claims.dismiss(a.k)
	}
	if a.in {
		err = driver.Afterwards(err) // what failed came after the request that has let it in
	}
	return p, err
}

func (d *Driver) enter(ctx context.Context, a *attempt) (driver.Place, error) {
	for {
		stands, err := d.lookup(ctx, a)
		if err != nil {
			return driver.Place{}, err
		}
		if !stands {
			if p, err := d.admit(ctx, a); p != nil || err != nil {
				return *cmp.Or(p, &driver.Place{}), err
			}
			if stands, err = d.apply(ctx, a); err != nil {
				return driver.Place{}, err
			}
		}
		if stands {
			return d.judge(ctx, a)
		}
	}
}

// lookup reports whether the claim stands in its queue. It asks etcd only about a claim that is known to have entered:
// whether another stands there, by an earlier request or by another driver, is found out by the transaction that puts it.
func (d *Driver) lookup(ctx context.Context, a *attempt) (bool, error) {
	if a.seen > 0 {
		if a.at = a.q.Find(a.c.ID); a.at < 0 {
			return false, nil
		}
		a.up, a.in = nil, true
		return true, nil
	}
	if a.c.Ticket == 0 && d.claims.lastSeen(a.k) == nil {
		return false, nil
	}
	err := d.locate(ctx, a)
	if a.c.Ticket == 0 && errors.Is(err, driver.ErrGone) {
		a.k, a.up, a.head = nil, nil, false // it enters as if for the first time
		return false, nil
	}
	return err == nil, err
}

// locate has the leases of a claim kept alive, and then reads its key and what stands ahead of it. Only both answers together
// say that it stands: somebody may have deleted the key of a lease that lives, and with a lock-delay the
// key outlives the lease.
func (d *Driver) locate(ctx context.Context, a *attempt) error {
	folder, ticket := d.wire.folder(a.c.Name), a.c.Ticket
	if e := d.claims.lastSeen(a.k); e != nil {
		ticket = e.created
	}
	self := clientv3.OpGet(folder, clientv3.WithPrefix(), clientv3.WithMinCreateRev(ticket), clientv3.WithMaxCreateRev(ticket))
	before := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithMaxCreateRev(ticket - 1)}
	if k := a.k; k != nil {
		self = clientv3.OpGet(k.key)
		var err error
		if a.up, err = d.keepUp(ctx, k); err != nil {
			if errors.Is(err, driver.ErrSession) {
				return d.over(ctx, k, nil, err)
			}
			return err
		}
		// A claim that hears of deletions knows what is ahead. Who takes the whole lock is decided by the head alone.
		if a.head = d.watches.expect(k) && a.c.Weight == driver.All; a.head {
			before = append(before, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
		}
	}
	r, err := d.wire.read(ctx, self, clientv3.OpGet(folder, before...))
	if err != nil {
		return err
	}
	e := only(r.Responses[0].GetResponseRange().Kvs)
	// By another revision it is a key that was put later: a foreign one, or by a request that came late.
	if e == nil || !is(a.c, e) || e.created != ticket {
		return d.over(ctx, a.k, e, nil)
	}
	a.q = append(queueOf(r.Responses[1].GetResponseRange().Kvs), *e)
	a.at, a.seen, a.term = len(a.q)-1, r.Header.Revision, r.Header.RaftTerm
	return nil
}

// find returns the entry of a claim that is not known, or [driver.ErrGone].
func (d *Driver) find(ctx context.Context, c *driver.Claim) (*entry, error) {
	options := []clientv3.OpOption{clientv3.WithPrefix()}
	if c.Ticket > 0 {
		options = append(options, clientv3.WithMinCreateRev(c.Ticket), clientv3.WithMaxCreateRev(c.Ticket))
	}
	r, err := d.wire.read(ctx, clientv3.OpGet(d.wire.folder(c.Name), options...))
	if err != nil {
		return nil, err
	}
	q := queueOf(r.Responses[0].GetResponseRange().Kvs)
	if i := q.Find(c.ID); i >= 0 && is(c, &q[i]) {
		return &q[i], nil
	}
	return nil, driver.ErrGone
}
