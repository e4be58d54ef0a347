package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
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

// provide gets leases for a claim, to have in hand.
func (d *Driver) provide(ctx context.Context, a *attempt, what wants) (err error) {
	d.giveBack(a)
	a.by = what
	life, on := d.claims.leases(a.k)
	ttl, _ := life.time(0)
	switch what {
	case wantsNew:
		ttl = cmp.Or(a.up.lifeKept.ttl, d.pool.seconds(a.c.TTL))
		if a.next.life, err = d.pool.grant(ctx, ttl); err != nil {
			return err
		}
		if a.next.on = a.next.life; on != life {
			a.next.on, err = d.pool.grant(ctx, cmp.Or(a.up.onKept.ttl, ttl+d.pool.seconds(a.c.Delay)))
		}
	case wantsLong:
		a.next.life = life
		a.next.on, a.next.up, err = d.longer(ctx, ttl+d.pool.seconds(a.c.Delay))
	case wantsShort:
		a.next.life = life
		a.next.on, err = d.pool.grant(ctx, d.pool.seconds(a.keep))
	}
	return err
}

// longer returns a lease for a claim's key. The claim lives as long as the lease that its key is named for. A lease of the pool that
// somebody has revoked is none, so another is taken.
func (d *Driver) longer(ctx context.Context, ttl time.Duration) (*lease, *upkeep, error) {
	for {
		l, err := d.pool.take(ctx, ttl)
		if err != nil || !l.stale(boottime.Now()) {
			return l, nil, err
		}
		up := &upkeep{life: l, on: l}
		if up.lifeKept, err = d.keepAliver.one(ctx, l); err == nil {
			return l, up, nil
		}
		if !errors.Is(err, driver.ErrSession) {
			return nil, nil, err
		}
		l.become(leaseOver)
	}
}

// giveBack gives back leases in hand that no key was hung on.
func (d *Driver) giveBack(a *attempt) {
	had, by := a.next, a.by
	a.next, a.by = pair{}, wantsNone
	for _, l := range []*lease{had.on, had.life} {
		if l != nil && (l == had.on || by == wantsNew) { // else the claim lives by it
			d.pool.spare(l)
		}
	}
}
