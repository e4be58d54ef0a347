package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// maxDelay is the longest lock-delay that Consul keeps.
	maxDelay = time.Minute

	// delayRetry is how often a claim at the head asks again while a lock-delay is in its way. Consul tells no end of it.
	delayRetry = 250 * time.Millisecond
)

// Enter takes a free lock by one transaction. Where the lock is taken, it puts the claim into the queue by a second one.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	switch {
	case c.Delay > maxDelay:
		err := fmt.Errorf("the lock-delay is %v; consul keeps %v at most", c.Delay, maxDelay)
		return driver.Place{}, driver.Refused(err)
	case c.Delay > 0 && !exclusive(c):
		err := fmt.Errorf("%w: consul keeps a lock-delay for exclusive claims alone", driver.ErrUnsupported)
		return driver.Place{}, err
	}
	switch lc := d.claims.of(c); {
	case lc != nil:
		if p, anew, err := d.enterAgain(ctx, c, lc); !anew {
			return p, err
		}
	case c.Ticket != 0: // it has entered before: it is found, or it is gone
		return d.visit(ctx, c, nil, "")
	}
	return d.enterNew(ctx, c)
}

// enterNew puts a claim at the tail of its queue, unless it is not let in. Nothing is known of the queue before the first
// attempt, mostly: then the lock may well be free.
func (d *Driver) enterNew(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	var q *queue
	if c.Reclaim || c.Try && !exclusive(c) { // it may have to stay out, or takes others out
		var err error
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
	}
	for range rounds {
		if q.find(c.ID) != nil { // by another client, or by a request of ours whose answer was lost
			p, err := d.visit(ctx, c, q, "")
			return p, driver.Afterwards(err)
		}
		m, lc, after, err := d.join(ctx, c, q)
		switch {
		case err != nil:
			return driver.Place{}, err
		case m.end == endEntered:
			return d.entered(ctx, c, lc, after)
		case m.end != endAgain:
			return m.place, m.why
		}
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
		if c.Try && m.delayed {
			return driver.Place{Ahead: len(q.entries)}, nil
		}
	}
	return driver.Place{}, driver.Refused(errQuicker)
}

// join asks for a claim's key, with a session that it gets, if it may have one.
func (d *Driver) join(ctx context.Context, c *driver.Claim, q *queue) (m move, lc *localClaim, after *queue, err error) {
	if _, m = admit(c, q); m.end != goesOn {
		return m, nil, q, nil
	}
	seen, err := d.agent.index.seen()
	if err != nil {
		return m, nil, q, err
	}
	session, err := d.sessions.take(ctx, d.sessions.kindOf(c))
	if err != nil {
		return m, nil, q, err
	}
	// It is in the table before the request: should the answer be lost, the next call knows which session it has.
	lc = newLocalClaim(c, folderOf(d.prefix, c.Name), session, claimAsking)
	lc.seen = seen
	d.claims.remember(lc)
	s, v := seatOf(c, lc), valueOf(c, d.prefix, time.Now())
	s.text = v.text()
	m, after, err = d.pursue(ctx, s, lc, q, joins)
	switch {
	case m.end == endAgain && m.spoils:
		d.claims.finish(lc, claimLost)
	case m.end != endEntered && (err == nil || driver.NotApplied(err)):
		d.claims.finish(lc, claimLeft) // nothing of it is in the store, and nothing is on its way
	}
	return m, lc, after, err
}

// entered tells where a claim stands whose key was made just now.
func (d *Driver) entered(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue) (driver.Place, error) {
	p, how, _, err := d.stand(ctx, seatOf(c, lc), lc, q)
	if how == endExpelled {
		return p, err // which says that it has not entered
	}
	if how == endGone {
		d.claims.finish(lc, claimLost)
	}
	return p, driver.Afterwards(err)
}

// stand tells where a claim stands that has entered, and how that was found out. One that may not stay is taken out.
func (d *Driver) stand(
	ctx context.Context, s *seat, lc *localClaim, q *queue,
) (p driver.Place, how end, now *queue, err error) {
	m, q, err := d.pursue(ctx, s, lc, q, stands)
	if err != nil {
		return p, goesOn, q, err
	}
	d.deleteDead(ctx, q)
	if s.c.Ticket == 0 && lc.seen > 0 && (m.end == endHolds || m.end == endWaits) {
		// Now it learns its ticket, by the answer to the request for its key or, if that was lost, by a later one.
		if other := d.agent.index.wrote(q.find(s.c.ID), lc.seen); other != nil {
			return p, endExpelled, q, d.withdraw(ctx, s.c, lc, q, other)
		}
	}
	switch m.end {
	case endGone:
		return p, m.end, q, driver.ErrGone
	case endExpelled:
		err := d.withdraw(ctx, s.c, lc, q, m.why)
		return m.place, m.end, q, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !lc.settle(m) {
		return p, m.end, q, driver.ErrGone // it left while this Enter was under way
	}
	if m.end == endHolds {
		d.watchSoon(lc, m.index)
	}
	m.place.TTL = max(1, lc.session.left())
	return m.place, m.end, q, nil
}

// withdraw takes a claim out that entered and may not stay, and returns why. It may be out already, with its session.
func (d *Driver) withdraw(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue, why error) error {
	if err := d.leave(ctx, c, lc, q); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Unknown(err)
	}
	return why
}

// deleteDead removes claims whose session is over. It does not matter if that fails: they count for nothing, and a claim that
// enters anew does not get their place (newKey).
func (d *Driver) deleteDead(ctx context.Context, q *queue) {
	var ops []op
	for _, p := range q.dead[:min(len(q.dead), maxReclaim)] {
		ops = append(ops, op{Verb: same, Key: p.Key, Index: p.ModifyIndex}, op{Verb: remove, Key: p.Key})
	}
	if len(ops) > 0 {
		_, _, _ = d.agent.transact(ctx, ops)
	}
}
