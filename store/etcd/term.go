package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// A leader of etcd ends the leases that have run out by its own clock. A leader that stood still, and does not know yet that
// it was replaced, also ends leases that its successor has kept alive (etcd issue 15247; pull request 16822 mends a part of
// it). So a keep-alive counts only if it was answered by the leader of the term in which the lease was granted: then no
// other member believes that the lease ends earlier. A read that is sent after the keep-alive's answer shows this. Its
// answer has the term of the leader that confirmed the read, or a later term, and terms only rise.
//
//	keep-alives are answered ──► the claim's key is read ──┬─ in the term of the leases ──► the claim has its whole time
//	        ▲                                              │
//	        └─── the key is attached to new leases ◄───────┴─ in another term
//
// A leader that was replaced does not know the leases that its successors granted, and so cannot end them. When the key is
// attached to another lease, it keeps its create revision, so the claim keeps its place and its token. The claim's time does
// not grow before the key is attached.

// An extension is the answer to one keep-alive: the length of the lease, and its earliest end by boottime.
type extension struct{ ttl, ends time.Duration }

// An upkeep is the answers to the keep-alives of a claim's leases.
type upkeep struct {
	life, on     *lease
	lifeBy, onBy extension // onBy is zero if the two leases are one
}

// confirm extends the leases by the keep-alives, if term is the term of the leases. term comes from the answer to a request
// that was sent after the keep-alives were answered. confirm reports whether it extended them. A nil upkeep has no
// keep-alives: confirm then reports true.
func (u *upkeep) confirm(term uint64) bool {
	if u == nil {
		return true
	}
	if u.life.term != term || u.on.term != term {
		return false
	}
	u.life.extend(u.lifeBy)
	if u.on != u.life {
		u.on.extend(u.onBy)
	}
	return true
}

// extend moves the end of a lease later.
func (l *lease) extend(by extension) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl = by.ttl
	l.ends = max(l.ends, by.ends)
}

// about reports whether the keep-alives were of these leases.
func (u *upkeep) about(life, on *lease) bool { return u.life == life && u.on == on }

// keepUp keeps a claim's leases alive. The claim's lease comes first: if it has ended, keepUp leaves the key's lease alone.
func (d *Driver) keepUp(ctx context.Context, k *localClaim) (u *upkeep, err error) {
	for again := true; again; {
		u = &upkeep{}
		u.life, u.on = d.claims.leases(k)
		u.lifeBy, err = d.keepAliver.one(ctx, u.life)
		if err == nil && u.on != u.life {
			u.onBy, err = d.keepAliver.one(ctx, u.on)
		}
		again = d.mistaken(k, u, err)
	}
	return u, err
}

// mistaken reports whether the keep-alives failed because the claim has other leases by now.
func (d *Driver) mistaken(k *localClaim, u *upkeep, err error) bool {
	return errors.Is(err, driver.ErrSession) && !u.about(d.claims.leases(k))
}

// provide gets leases in hand for a claim.
func (d *Driver) provide(ctx context.Context, a *attempt, what wants) (err error) {
	d.giveBack(a)
	a.by = what
	life, on := d.claims.leases(a.k)
	ttl, _ := life.time(0)
	switch what {
	case wantsNew:
		ttl = cmp.Or(a.up.lifeBy.ttl, d.pool.seconds(a.c.TTL))
		if a.next.life, err = d.pool.grant(ctx, ttl); err != nil {
			return err
		}
		if a.next.on = a.next.life; on != life {
			a.next.on, err = d.pool.grant(ctx, cmp.Or(a.up.onBy.ttl, ttl+d.pool.seconds(a.c.Delay)))
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

// longer returns a lease for the key of a claim with a lock-delay. If a lease of the pool is stale, longer keeps it alive
// first, and takes another one if it has ended.
func (d *Driver) longer(ctx context.Context, ttl time.Duration) (*lease, *upkeep, error) {
	for {
		l, err := d.pool.take(ctx, ttl)
		if err != nil || !l.stale(boottime.Now()) {
			return l, nil, err
		}
		up := &upkeep{life: l, on: l}
		if up.lifeBy, err = d.keepAliver.one(ctx, l); err == nil {
			return l, up, nil
		}
		if !errors.Is(err, driver.ErrSession) {
			return nil, nil, err
		}
		l.become(leaseOver)
	}
}

// giveBack gives the leases in hand back to the pool. If a request of unknown outcome may have attached the key to one, that
// lease runs out instead.
func (d *Driver) giveBack(a *attempt) {
	had, by := a.next, a.by
	a.next, a.by = pair{}, wantsNone
	for _, l := range []*lease{had.on, had.life} {
		if l != nil && (l == had.on || by == wantsNew) { // else it is the claim's present lease
			d.pool.spare(l)
		}
	}
}
