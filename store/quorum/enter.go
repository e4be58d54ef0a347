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
	splitTries = 4                    // attempts of one Enter, if no claim got a majority
	splitPause = 2 * time.Millisecond // doubled with each attempt, it bounds the random pause after it
)

// Enter asks all nodes at once or, if the claim has waited, the lead before the rest. If no majority grants the claim, Enter
// takes it out of the nodes that did: the next Enter is another attempt. If no other claim has a majority either, since
// several came or left at once, Enter tries again itself.
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

// attempt asks all nodes for a place. It returns split if no claim seems to have a majority. All attempts before this one
// were split.
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
	ask := func(ctx context.Context, n *node) (driver.Place, error) { return n.enter(ctx, claim, least) }
	r, err := d.rounds.askRest(d.timeout(c.TTL), c.ID, first, settled, ask)
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

// patience returns the shortest time for which an attempt waits for the last votes. Each attempt waits longer than the one
// before, or all of them would miss a slow node. Under contention the wait stays short, because the attempt blocks others.
func (d *Driver) patience(name string, try int) time.Duration {
	if d.contention.below(name, try) {
		return time.Duration(try) * stragglerLeast
	}
	return stragglerLeast
}

// admit returns the claim for the nodes, where it holds or leaves nothing, or the reason why a quorum cannot have it.
func (d *Driver) admit(ctx context.Context, c *driver.Claim) (*driver.Claim, error) {
	claim := *c
	claim.Wait = c.TTL
	if claim.Ticket <= waitingTicket {
		claim.Ticket = 0
	}
	if d.rule.ranked {
		claim.Record = WithVersion(c.Record, 0)
	} else {
		claim.Try = true // so that nothing is kept unless it holds; a member's Vote does the same
	}
	switch {
	case c.Weight != driver.All || c.Capacity != driver.All:
		return nil, fmt.Errorf("%w: a quorum has neither readers nor permits", driver.ErrUnsupported)
	case c.Delay > 0 && !d.Traits().Delay:
		return nil, fmt.Errorf("%w: not all nodes have a lock-delay", driver.ErrUnsupported)
	case c.TTL+c.Delay > d.o.MaxTTL:
		const says = "a lease and its lock-delay of %v are longer than %v, after which a node that forgot votes again"
		return nil, driver.Refused(fmt.Errorf(says, c.TTL+c.Delay, d.o.MaxTTL))
	}
	return &claim, driver.Ended(ctx, false)
}

// enter asks one node for a place. A member's vote counts only if the client knows which server gave it.
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
	// If this fails, the entry by an earlier id keeps the claim out, as another claim would.
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

// agree makes sure that a majority knows the ticket. Mostly all nodes have answered with it.
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
	// On a node where the outcome is unknown, the claim gets another id: a late Raise would replace the ticket of a later
	// attempt.
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

// won notes that a claim holds on a majority, and returns its place. The votes of the other nodes may come later.
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
