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

	// delayRetry is how often a claim at the head asks again during a lock-delay. Consul does not say when a lock-delay
	// ends.
	delayRetry = 250 * time.Millisecond
)

// errSharedDelay refuses a claim with a lock-delay to be shared, or to become so: the lock-delay is on the lock's key, and
// only an exclusive claim has it.
var errSharedDelay = fmt.Errorf("%w: consul keeps a lock-delay for exclusive claims alone", driver.ErrUnsupported)

// Enter takes a free lock in one transaction. If the lock is taken, a second transaction puts the claim into the queue.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	switch {
	case c.Delay > maxDelay:
		err := fmt.Errorf("the lock-delay is %v; consul keeps %v at most", c.Delay, maxDelay)
		return driver.Place{}, driver.Refused(err)
	case c.Delay > 0 && !exclusive(c):
		return driver.Place{}, errSharedDelay
	}
	switch lc := d.claims.of(c); {
	case lc != nil:
		if p, anew, err := d.enterAgain(ctx, c, lc); !anew {
			return p, err
		}
	case c.Ticket != 0: // it entered before: it is found, or it is gone
		return d.visit(ctx, c, nil, "")
	}
	return d.enterNew(ctx, c)
}

// enterNew puts a claim at the tail of its queue, if the claim is let in. Usually it does not read the queue before the
// first attempt, and supposes that the lock is free.
func (d *Driver) enterNew(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	var q *queue
	if c.Reclaim || c.Try && !exclusive(c) { // it may have to stay out, or remove others
		var err error
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
	}
	for range rounds {
		if q.find(c.ID) != nil { // another client entered it, or an unanswered request of this client
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

// join gets a session and asks for the claim's key, if the claim may have one.
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
	// The claim is in the table before the request: if the answer is lost, the next call knows its session.
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
		d.claims.finish(lc, claimLeft) // the store has no key of it, and no request is on its way
	}
	return m, lc, after, err
}

// entered returns the place of a claim whose key was just made.
func (d *Driver) entered(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue) (driver.Place, error) {
	p, how, _, err := d.stand(ctx, seatOf(c, lc), lc, q)
	if how == endExpelled {
		return p, err // the error says that the claim has not entered
	}
	if how == endGone {
		d.claims.finish(lc, claimLost)
	}
	return p, driver.Afterwards(err)
}

// stand returns the place of a claim that has entered, and the end of the goal that found it. A claim that may not stay is
// removed.
func (d *Driver) stand(
	ctx context.Context, s *seat, lc *localClaim, q *queue,
) (p driver.Place, how end, now *queue, err error) {
	m, q, err := d.pursue(ctx, s, lc, q, stands)
	if err != nil {
		return p, goesOn, q, err
	}
	d.deleteDead(ctx, q)
	if s.c.Ticket == 0 && lc.seen > 0 && (m.end == endHolds || m.end == endWaits) {
		// The claim learns its ticket only now, from the answer to the request for its key or, if that answer was lost, from
		// a later answer.
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
	if !lc.settleLocked(m) {
		return p, m.end, q, driver.ErrGone // it left while this Enter was under way
	}
	if m.end == endHolds {
		d.watchSoonLocked(lc, m.index)
	}
	m.place.TTL = max(1, lc.session.remainingLocked())
	return m.place, m.end, q, nil
}

// withdraw removes a claim that entered and may not stay, and returns the reason. The claim may be gone already, with its
// session.
func (d *Driver) withdraw(ctx context.Context, c *driver.Claim, lc *localClaim, q *queue, why error) error {
	if err := d.leave(ctx, c, lc, q); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Unknown(err)
	}
	return why
}

// deleteDead removes claims whose session is over. A failure does not matter: such claims do not count, and a claim that
// enters does not get their place (newKey).
func (d *Driver) deleteDead(ctx context.Context, q *queue) {
	var ops []op
	for _, p := range q.dead[:min(len(q.dead), maxReclaim)] {
		ops = append(ops, op{Verb: same, Key: p.Key, Index: p.ModifyIndex}, op{Verb: remove, Key: p.Key})
	}
	if len(ops) > 0 {
		_, _, _ = d.agent.transact(ctx, ops)
	}
}
