package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A leader of etcd ends the leases that have run out by its own clock. One that stood still, and does not know yet that it was
// replaced, ends leases too that its successor has kept alive since (etcd issue 15247; pull request 16822 mends a part of it). So
// a keep-alive counts only if the leader of the term in which the lease was granted has answered it: no other member takes the
// lease to end earlier. That is known by a request that is sent after the answer to the keep-alive. Its own answer tells the
// term of the leader that has confirmed it, or a later one, and terms only rise.
//
//	keep-alives are answered ──► the claim's key is read ──┬─ in the term of the leases ──► the claim has its whole time
//	        ▲                                              │
//	        └─────── the key hangs on new leases ◄─────────┴─ in another term
//
// A leader that was replaced does not know leases that were granted after that, and so cannot end them. The key keeps its create
// revision when it is hung on another lease, so the claim keeps its place and its token. Until its key hangs there, a claim has
// no more time than it had.

// A kept is what the answer to a keep-alive tells of a lease.
type kept struct{ ttl, ends time.Duration }

// An upkeep is what keep-alives tell of the leases of a claim.
type upkeep struct {
	life, on         *lease
	lifeKept, onKept kept // onKept is not set if the two leases are one
}

// confirm has the leases live as long as the keep-alives tell, if a request that was sent after their answers was answered in the
// term of the leases. It reports whether that is so. Nil is no keep-alive, and tells nothing.
func (u *upkeep) confirm(term uint64) bool {
	if u == nil {
		return true
	}
	if u.life.term != term || u.on.term != term {
		return false
	}
	u.life.extend(u.lifeKept)
	if u.on != u.life {
		u.on.extend(u.onKept)
	}
	return true
}

// extend has a lease end later.
func (l *lease) extend(k kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl = k.ttl
	l.ends = max(l.ends, k.ends)
}

// about reports whether the keep-alives were of the leases that a claim has.
func (u *upkeep) about(life, on *lease) bool { return u.life == life && u.on == on }

// keepUp keeps the leases of a claim alive: first the one that it lives by, so that one that came too late changes nothing.
func (d *Driver) keepUp(ctx context.Context, k *localClaim) (u *upkeep, err error) {
	for again := true; again; {
		u = &upkeep{}
		u.life, u.on = d.claims.leases(k)
		u.lifeKept, err = d.keepAliver.one(ctx, u.life)
		if err == nil && u.on != u.life {
			u.onKept, err = d.keepAliver.one(ctx, u.on)
		}
		again = d.mistaken(k, u, err)
	}
	return u, err
}

// mistaken reports whether leases are no more because the claim has others by now.
func (d *Driver) mistaken(k *localClaim, u *upkeep, err error) bool {
	return errors.Is(err, driver.ErrSession) && !u.about(d.claims.leases(k))
}

// sustain has a claim whose key was read have its whole time: by the keep-alives before that, or by others if there were none, or if
// the key turned out to hang on other leases, and by new leases where those do not count.
func (d *Driver) sustain(ctx context.Context, c *driver.Claim, k *localClaim, e *entry, u *upkeep, term uint64) (err error) {
	if u == nil || !u.about(d.claims.leases(k)) {
		if u, term, err = d.uphold(ctx, c, k, e); err != nil {
			return err
		}
	}
	if u.about(d.claims.leases(k)) && u.confirm(term) {
		return nil
	}
	return d.replace(ctx, c, k, e, u)
}

// uphold keeps the leases of a claim alive, and then reads its key once more.
func (d *Driver) uphold(ctx context.Context, c *driver.Claim, k *localClaim, e *entry) (*upkeep, uint64, error) {
	u, err := d.keepUp(ctx, k)
	if err != nil {
		return nil, 0, err
	}
	term, err := d.reread(ctx, c, k, e)
	return u, term, err
}

// reread reads the key of a claim once more, and returns the term of the leader that tells.
func (d *Driver) reread(ctx context.Context, c *driver.Claim, k *localClaim, e *entry) (term uint64, err error) {
	r, err := d.wire.read(ctx, clientv3.OpGet(k.key))
	if err != nil {
		return 0, err
	}
	now := only(r.Responses[0].GetResponseRange().Kvs)
	if now == nil || !is(c, now) || now.created != e.created {
		return 0, d.over(ctx, k, now, nil)
	}
	d.claims.sight(k, now)
	*e = *now
	return r.Header.RaftTerm, nil
}

// replace hangs the key of a claim on new leases, as long as those that it had.
func (d *Driver) replace(ctx context.Context, c *driver.Claim, k *localClaim, e *entry, u *upkeep) error {
	for {
		err := d.replaceOnce(ctx, c, k, e, u)
		switch {
		case errors.Is(err, errChanged):
			if _, err := d.reread(ctx, c, k, e); err != nil {
				return err
			}
		case !d.wire.revoked(ctx, err): // by somebody who revokes leases that are new
			return err
		}
	}
}

func (d *Driver) replaceOnce(ctx context.Context, c *driver.Claim, k *localClaim, e *entry, u *upkeep) error {
	ttl := cmp.Or(u.lifeKept.ttl, d.pool.seconds(c.TTL))
	life, err := d.pool.grant(ctx, ttl)
	if err != nil {
		return err
	}
	to := life
	if was, on := d.claims.leases(k); on != was {
		if to, err = d.pool.grant(ctx, cmp.Or(u.onKept.ttl, ttl+d.pool.seconds(c.Delay))); err != nil {
			d.pool.spare(life)
			return err
		}
	}
	if _, err = d.move(ctx, k, e, life, to); err != nil {
		return err
	}
	d.claims.live(k, life, to, e.modified)
	return nil
}
