package etcd

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// atOnce is how many keys one transaction looks at; etcd's default limit is 128.
const atOnce = 100

// A renewal is one claim on its way through Renew.
type renewal struct {
	c   *driver.Claim
	k   *claim
	err error
}

// Renew keeps all leases alive on one stream while it looks whether the keys are there, since a lease may outlive its
// key. Only both together are a lease confirmed.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	bounded, done, err := d.begin(ctx)
	if err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	defer done()
	began := boottime.Now()
	all := make([]*renewal, len(cs))
	for i, c := range cs {
		all[i] = &renewal{c: c}
		all[i].k, all[i].err = d.locate(bounded, c)
	}
	var alive sync.WaitGroup
	alive.Go(func() { d.keepAlive(bounded, all) })
	stands := make([]error, len(all))
	for from := 0; from < len(all); from += atOnce {
		to := min(from+atOnce, len(all))
		d.look(bounded, all[from:to], stands[from:to])
	}
	alive.Wait()
	for i, r := range all {
		if gone := errors.Is(r.err, driver.ErrGone) || errors.Is(stands[i], driver.ErrGone); gone && r.k != nil {
			r.err = d.vanished(r.k, r.err)
		}
		before := r.err
		r.err = cmp.Or(r.err, stands[i])
		if err := d.explain(ctx, r.err); err != nil {
			if before == nil && r.k != nil && driver.OutcomeOf(err) == driver.OutcomeUnsent {
				err = driver.Unknown(err) // the lease was kept alive at the same time
			}
			answers[i].Err = err
			continue
		}
		answers[i].TTL = r.k.confirmed(r.c, began)
	}
	return answers
}

// locate returns what is known of a claim, which may have entered by another driver.
func (d *Driver) locate(ctx context.Context, c *driver.Claim) (*claim, error) {
	k := d.recall(c.ID)
	if e := d.lastSeen(k); e != nil {
		if c.Ticket != 0 && c.Ticket != e.created {
			return nil, driver.ErrGone
		}
		return k, nil
	}
	e, err := d.find(ctx, c)
	if err != nil {
		return nil, err
	}
	return d.found(c, e), nil
}

// keepAlive keeps the leases that claims live by alive, and then those that their keys hang on.
func (d *Driver) keepAlive(ctx context.Context, all []*renewal) {
	for _, longer := range []bool{false, true} {
		var leases []*lease
		var whose []*renewal
		for _, r := range all {
			if r.err != nil || r.k == nil {
				continue
			}
			switch home, on := d.leases(r.k); {
			case !longer:
				leases, whose = append(leases, home), append(whose, r)
			case on != home:
				leases, whose = append(leases, on), append(whose, r)
			}
		}
		for i, err := range d.pulse.keep(ctx, leases) {
			whose[i].err = err
		}
	}
}

// look tells whether the keys of claims are there.
func (d *Driver) look(ctx context.Context, part []*renewal, errs []error) {
	var (
		ops []clientv3.Op
		at  []int
	)
	for i, r := range part {
		if r.k != nil {
			ops, at = append(ops, clientv3.OpGet(r.k.key)), append(at, i)
		}
	}
	if len(ops) == 0 {
		return
	}
	r, err := d.read(ctx, ops...)
	for j, i := range at {
		if err != nil {
			errs[i] = err
			continue
		}
		kvs := r.Responses[j].GetResponseRange().Kvs
		if len(kvs) == 0 {
			errs[i] = driver.ErrGone
			continue
		}
		e, k := entryOf(kvs[0]), part[i].k
		if was := d.lastSeen(k); was != nil && e.created != was.created || !is(part[i].c, &e) {
			errs[i] = driver.ErrGone
			continue
		}
		d.sight(k, &e)
		d.present(k, r.Header.Revision)
	}
}
