package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	splitTries = 4                    // attempts of one Enter, when nobody got a majority
	splitPause = 2 * time.Millisecond // before the second, at random; later ones wait longer
)

// Enter asks all nodes at once, or if the claim has waited, one before the rest. A claim that does not hold on a majority
// is taken out of those that gave it a place: entering again is another attempt. When no other claim has a majority
// either, since several came or left at once, it tries again itself.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	claim, err := d.admit(ctx, c)
	if err != nil {
		return driver.Place{}, err
	}
	for try := 1; ; try++ {
		p, split, err := d.attempt(ctx, c, claim, try)
		if errors.Is(err, driver.ErrGone) || claim.Ticket == 0 && forGood(err) {
			d.claims.over(c)
		}
		if err != nil || !split || try == splitTries {
			return p, err
		}
		if err := d.workers.pause(ctx, rand.N(splitPause<<try)); err != nil {
			return driver.Place{}, err
		}
	}
}

// attempt asks all nodes for a place. It reports whether no claim has a majority, as far as was seen; so did all
// tries before this one.
func (d *Driver) attempt(ctx context.Context, c, claim *driver.Claim, try int) (p driver.Place, split bool, err error) {
	var least int64
	if d.rule.ranked {
		least = d.nodes.proposal()
	}
	var first []vote // the lead's vote, if it granted the claim
	to := d.leading(c)
	if to.lead != nil {
		lead := to.lead
		r, votes, err := d.askLead(ctx, claim, lead, to.waits, least)
		if r == nil {
			return driver.Place{}, false, err
		}
		switch v := &votes[lead.index]; {
		case err != nil:
			p, err = d.missedOut(ctx, c, claim, r, votes, err)
			return p, false, err
		case !v.came, v.err != nil: // the others may do without it
		case !v.place.Holds:
			return d.late(ctx, c, to, v, try)
		default:
			first, least = votes, max(least, v.place.Ticket)
		}
	}
	settled := func(votes []vote) bool { return d.rule.settled(claim, votes) }
	r, err := d.rounds.askRest(d.timeout(c.TTL), c.ID, first, settled, func(ctx context.Context, n *node) (driver.Place, error) {
		return n.enter(ctx, claim, least)
	})
	if err != nil {
		return driver.Place{}, false, err
	}
	r.patient, r.straggler, r.least = claim.Reclaim, d.patience(c.Name, try), least
	votes, err := r.wait(ctx)
	if err == nil && d.rule.doubtful(claim, votes, least, d.claims.ticketOf(c.ID)) {
		votes, err = r.waitAll(ctx)
	}
	if err == nil && d.rule.granted(votes) {
		ticket := d.rule.ticket(claim, votes, d.claims.ticketOf(c.ID))
		if err = d.agree(ctx, claim, votes, ticket); err == nil {
			return d.won(claim, r, votes, ticket), false, nil
		}
	}
	if claim.Ticket != 0 {
		return driver.Place{}, false, d.rule.still(votes, err)
	}
	by := d.rule.blocker(votes)
	d.forgetful(to.lead, first, c.Name, by)
	p, err = d.missedOut(ctx, c, claim, r, votes, err)
	return p, err == nil && by == nil, err
}

// patience is the shortest time for which a try waits for the last votes: longer than the try before it, or a slow
// node would be missed by all of them. Under contention the pause is shorter, because this attempt blocks others.
func (d *Driver) patience(name string, try int) time.Duration {
	if d.contention.below(name, try) {
		return time.Duration(try) * stragglerLeast
	}
	return stragglerLeast
}

// admit returns the claim as the nodes get it: it has no place on them but one that holds.
func (d *Driver) admit(ctx context.Context, c *driver.Claim) (*driver.Claim, error) {
	claim := *c
	claim.Wait = c.TTL
	if claim.Ticket <= waitingTicket {
		claim.Ticket = 0
	}
	if d.rule.ranked {
		claim.Record = WithVersion(c.Record, 0)
	} else {
		claim.Try = true // a member keeps nothing unless it holds
	}
	switch {
	case c.Weight != driver.All || c.Capacity != driver.All:
		return nil, fmt.Errorf("%w: a quorum has neither readers nor permits", driver.ErrUnsupported)
	case c.Delay > 0 && !d.Traits().Delay:
		return nil, fmt.Errorf("%w: not all nodes have a lock-delay", driver.ErrUnsupported)
	case c.TTL+c.Delay > d.o.MaxTTL:
		return nil, driver.Refused(fmt.Errorf("a lease and its lock-delay of %v are longer than %v, after which a node that forgot votes again", c.TTL+c.Delay, d.o.MaxTTL))
	}
	return &claim, driver.Ended(ctx, false)
}

// enter asks one node for a place. A member's vote counts only if it is known who gave it.
func (n *node) enter(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	store, err := n.reachable()
	if err != nil {
		return driver.Place{}, err
	}
	m, ok := store.(Member)
	if ok {
		if err := n.admitted(ctx, m); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
	}
	// Where that fails, an entry by an earlier id stands in the way of the claim, as another's would.
	_, _ = n.leaveEarlier(ctx, store, c)
	own := n.ids.as(c, n.index)
	if !ok {
		p, err := store.Enter(ctx, own)
		n.reached(err)
		return p, err
	}
	p, err := m.Vote(ctx, own, least)
	n.reached(err)
	if err == nil && p.Holds {
		if barred := n.admitted(ctx, m); barred != nil {
			return driver.Place{}, driver.Unknown(fmt.Errorf("it granted the claim, but %w", barred))
		}
	}
	return p, err
}

// agree makes sure that a majority knows the ticket. Mostly all have answered with it.
func (d *Driver) agree(ctx context.Context, c *driver.Claim, votes []vote, ticket int64) error {
	if !d.rule.ranked || c.Ticket != 0 {
		return nil
	}
	agreed, others := byTicket(votes, ticket)
	if agreed >= d.rule.need {
		return nil
	}
	enough := func(votes []vote) bool { return agreed+confirmations(votes) >= d.rule.need }
	r, err := d.rounds.ask(d.timeout(c.TTL), "", others, enough,
		func(ctx context.Context, n *node) (driver.Place, error) {
			return driver.Place{}, n.raise(ctx, n.ids.as(c, n.index), ticket)
		})
	if err != nil {
		return err
	}
	confirmed, err := r.wait(ctx)
	if err == nil && enough(confirmed) {
		return nil
	}
	// The claim is not entered by the same id again where it is not known what became of the request: if that comes late, the
	// ticket would replace the one of a later attempt.
	unsure, disagreed := d.rule.disagreed(others, confirmed)
	for _, i := range unsure {
		d.ids.draw(c.ID, i)
	}
	if err != nil {
		return err
	}
	return disagreed
}

func (n *node) raise(ctx context.Context, c *driver.Claim, ticket int64) error {
	store, err := n.store()
	if err != nil {
		return err
	}
	return store.(Member).Raise(ctx, c, ticket)
}

// won is the place of a claim that holds on a majority. The rest of the nodes are left to catch up.
func (d *Driver) won(c *driver.Claim, r *round, votes []vote, ticket int64) driver.Place {
	d.contention.caught(c.Name)
	d.mu.Lock()
	h := d.claims.holdLocked(c, ticket)
	d.mu.Unlock()
	r.leave(votes, func(i int, v vote) { d.caughtUp(h, i, v) })
	for i, v := range votes {
		if v.came {
			d.caughtUp(h, i, v)
		}
	}
	var leases []time.Duration
	for _, v := range votes {
		if v.grants() {
			leases = append(leases, v.place.TTL)
		}
	}
	return driver.Place{Ticket: ticket, Holds: true, TTL: d.rule.lasting(leases)}
}
