package consul

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// Leave is one transaction.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	lc := d.claims.of(l.Claim)
	if lc != nil && l.Keep == 0 {
		return d.leave(ctx, l.Claim, lc, nil)
	}
	q, err := d.look(ctx, l.Claim.Name)
	if err != nil {
		return driver.NotYet(err)
	}
	if lc = d.owner(l.Claim, lc, q); lc == nil {
		return driver.ErrGone
	}
	if l.Keep > 0 {
		return d.keep(ctx, l, lc, q)
	}
	return d.leave(ctx, l.Claim, lc, q)
}

// owner returns the local claim whose session has the claim's key in the queue: this client's or, if another client's
// session has the key, one with that session. It returns nil if the claim is not in the queue. A session of another client
// is not renewed, and ends when the claim has left, since the client that made it may be gone.
func (d *Driver) owner(c *driver.Claim, lc *localClaim, q *queue) *localClaim {
	e := q.find(c.ID)
	if lc != nil && e != nil && e.Session == lc.session.id {
		return lc
	}
	if lc != nil {
		d.claims.finish(lc, claimLost)
	}
	if e == nil || e.Left {
		return nil
	}
	s := &session{id: e.Session, kind: kind{ttl: d.sessions.floor}, spoiled: true, borrowed: true}
	return newLocalClaim(c, folderOf(d.prefix, c.Name), s, claimUnsure)
}

// leave removes a claim from its queue; q is the queue, or nil if it was not read. Afterwards another claim can use the
// session.
func (d *Driver) leave(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue) error {
	for range rounds {
		m, now, err := d.pursue(ctx, seatOf(c, lc), lc, q, leaves)
		switch {
		case err != nil:
			return parting(m, err)
		case m.end == endLeft:
			d.claims.finish(lc, claimLeft)
			return nil
		}
		if lc, q = d.owner(c, lc, now), now; lc == nil {
			return driver.ErrGone
		}
	}
	return driver.Refused(errQuicker)
}

// parting returns the error of a Leave by its last move.
func parting(m move, err error) error {
	switch {
	case m.out: // the claim has left, and its remains keep others out
		return driver.Afterwards(err)
	case errors.Is(err, errQuicker):
		return driver.Refused(err)
	case m.ops == nil:
		return driver.NotYet(err)
	}
	return err
}

// keep keeps a claim that holds, by a session that lasts as long as the lock must stay taken, and ends that session when the
// time is over. If this client is gone by then, the session's own TTL ends it later.
func (d *Driver) keep(ctx context.Context, l *driver.Release, lc *localClaim, q *queue) error {
	var (
		heir   *session // made once the claim is known to hold
		serves bool     // whether the heir may have the keys
	)
	defer func() {
		if !serves {
			d.sessions.giveBack(heir)
		}
	}()
	for range rounds {
		s := seatOf(l.Claim, lc)
		if heir != nil {
			s.heir = heir.id
		}
		m, now, err := d.pursue(ctx, s, lc, q, keeps)
		if err != nil {
			if serves = m.ops != nil && !driver.NotApplied(err); serves {
				return err // and the heir ends by its TTL
			}
			return parting(m, err)
		}
		switch q = now; m.end {
		case endLeft:
			serves = true
			d.claims.finish(lc, claimLeft)
			d.sessions.endAfter(heir, l.Keep)
			return nil
		case endUnheld:
			return d.leave(ctx, l.Claim, lc, q)
		case endHeirless:
			ttl := min(max(l.Keep, d.sessions.floor), driver.MaxTTL).Round(time.Millisecond)
			if heir, err = d.sessions.create(ctx, kind{ttl: ttl}); err != nil {
				return err
			}
			heir.spoiled = true
		case endGone:
			if lc = d.owner(l.Claim, lc, q); lc == nil {
				return driver.ErrGone
			}
		default:
			return m.why
		}
	}
	return driver.Refused(errQuicker)
}
