package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/work"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// findAtOnce bounds the reads that look for claims of other drivers at the same time. One after the other, very many would
	// take longer than a call may last.
	findAtOnce = 8

	// sustainAtOnce bounds the claims that get new leases at the same time.
	sustainAtOnce = 16
)

// A renewal is one claim within Renew. It takes two answers to renew a claim: the leases', and the key's. One goroutine
// writes each.
type renewal struct {
	c        *driver.Claim
	k        *localClaim
	up       *upkeep
	leaseErr error  // the leases' answer, or the reason why the claim was not found
	e        *entry // the key's answer: its entry, or nil
	keyErr   error  // the same: why the read failed, or that the key is gone
	term     uint64 // the same: the leader's term
}

// Renew keeps all leases alive on one stream. Then it reads whether the keys are there, since a lease may outlive its key. A
// claim is renewed only by both answers. Most claims need no goal for this: sustainAll pursues lives for the rest.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	defer done()
	began := boottime.Now()
	all := make([]*renewal, len(cs))
	var foreign []*renewal
	for i, c := range cs {
		all[i] = &renewal{c: c}
		if all[i].k, all[i].leaseErr = d.ours(c); all[i].k == nil && all[i].leaseErr == nil {
			foreign = append(foreign, all[i])
		}
	}
	work.Each(len(foreign), findAtOnce, func(i int) { foreign[i].k, foreign[i].leaseErr = d.adopt(bounded, foreign[i].c) })
	var located []*renewal
	for _, r := range all {
		if r.leaseErr == nil {
			located = append(located, r)
		}
	}
	d.prolong(bounded, located)
	for part := range slices.Chunk(located, int(d.wire.atOnce.Load())) {
		d.readKeys(bounded, part)
	}
	d.sustainAll(bounded, located)
	for i, r := range all {
		if answers[i].Err = d.wire.explain(ctx, d.renewed(bounded, r)); answers[i].Err == nil {
			answers[i].TTL = d.left(r.k, r.c, began)
		} else if r.k != nil && r.leaseErr == nil && driver.OutcomeOf(answers[i].Err) == driver.OutcomeUnsent {
			answers[i].Err = driver.Unknown(answers[i].Err) // the lease was kept alive all the same
		}
	}
	return answers
}

// ours returns the local claim of a claim that this driver has seen in etcd, or nil. It fails with ErrGone if the claim has
// another ticket.
func (d *Driver) ours(c *driver.Claim) (*localClaim, error) {
	k := d.claims.of(c.ID)
	switch e := d.claims.lastSeen(k); {
	case e == nil:
		return nil, nil
	case c.Ticket != 0 && c.Ticket != e.created:
		return nil, driver.ErrGone
	}
	return k, nil
}

// adopt finds a claim that entered by another driver, and puts it into the table: its client is here now, and will renew it
// here again.
func (d *Driver) adopt(ctx context.Context, c *driver.Claim) (*localClaim, error) {
	e, err := d.find(ctx, c)
	if err != nil {
		return nil, err
	}
	return d.claims.remember(d.claims.meet(c, nil, e)), nil
}

// prolong keeps the claims' leases alive, and then the keys' leases where they differ.
func (d *Driver) prolong(ctx context.Context, all []*renewal) {
	for _, longer := range []bool{false, true} {
		var leases []*lease
		var whose []*renewal
		for _, r := range all {
			switch {
			case !longer:
				r.up = &upkeep{}
				r.up.life, r.up.on = d.claims.leases(r.k)
				leases, whose = append(leases, r.up.life), append(whose, r)
			case r.up.on != r.up.life && r.leaseErr == nil:
				leases, whose = append(leases, r.up.on), append(whose, r)
			}
		}
		all, errs := d.keepAliver.keep(ctx, leases)
		for i, r := range whose {
			if r.leaseErr = errs[i]; longer {
				r.up.onBy = all[i]
			} else {
				r.up.lifeBy = all[i]
			}
			if d.mistaken(r.k, r.up, r.leaseErr) {
				r.up, r.leaseErr = d.keepUp(ctx, r.k)
			}
		}
	}
}

// readKeys reads whether the keys of claims are there.
func (d *Driver) readKeys(ctx context.Context, part []*renewal) {
	ops := make([]clientv3.Op, len(part))
	for i, r := range part {
		ops[i] = clientv3.OpGet(r.k.key)
	}
	answer, err := d.wire.read(ctx, ops...)
	denied := len(part) > 1 && errors.Is(err, rpctypes.ErrPermissionDenied) // perhaps for only one of the keys
	if d.wire.tooMany(err, len(part)) || denied {
		for half := range slices.Chunk(part, (len(part)+1)/2) {
			d.readKeys(ctx, half)
		}
		return
	}
	for i, r := range part {
		if r.keyErr = err; err != nil {
			continue
		}
		r.e = only(answer.Responses[i].GetResponseRange().Kvs)
		was := d.claims.lastSeen(r.k)
		if r.e == nil || !is(r.c, r.e) || was != nil && r.e.created != was.created {
			r.keyErr = driver.ErrGone
			continue
		}
		d.claims.sight(r.k, r.e)
		d.watches.present(r.k, answer.Header.Revision)
		r.term = answer.Header.RaftTerm
	}
}

// sustainAll gives the leases of all claims that are still in etcd their whole time, and ends the others.
func (d *Driver) sustainAll(ctx context.Context, all []*renewal) {
	var rest []*renewal
	for _, r := range all {
		gone := errors.Is(r.keyErr, driver.ErrGone)
		switch {
		case errors.Is(r.leaseErr, driver.ErrGone):
			d.claims.end(r.k, claimLost)
		case gone: // whatever the keep-alives said
			rest = append(rest, r)
		case r.leaseErr != nil || r.keyErr != nil:
		case !(r.up.about(d.claims.leases(r.k)) && r.up.confirm(r.term)):
			rest = append(rest, r)
		}
	}
	work.Each(len(rest), sustainAtOnce, func(i int) {
		r := rest[i]
		a := d.newAttempt(r.c)
		defer d.giveBack(a)
		a.k, a.up, a.v = r.k, r.up, &view{term: r.term}
		if r.e != nil {
			a.v.q = queue{*r.e}
		}
		m, err := d.pursue(ctx, a, lives)
		if err == nil && m.end != endLives {
			err = d.over(a, m)
		}
		if r.leaseErr, r.keyErr = nil, err; errors.Is(err, driver.ErrSession) {
			r.leaseErr = err
		}
	})
}

// renewed returns the error of a claim by both answers. If the claim has an amendment, renewed makes it.
func (d *Driver) renewed(ctx context.Context, r *renewal) error {
	if err := cmp.Or(r.leaseErr, r.keyErr); r.k == nil || err != nil || r.c.Amend == nil {
		return err
	}
	a := d.newAttempt(r.c)
	a.k = r.k
	m, err := d.pursue(ctx, a, amends)
	switch {
	case err != nil:
		return err
	case m.end == endRefused:
		return m.why
	case m.end != endAmended:
		return d.over(a, m)
	}
	return nil
}
