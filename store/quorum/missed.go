package quorum

import (
	"context"
	"slices"

	"github.com/stilelock/stile/driver"
)

// missedOut takes a claim without a majority out of the nodes, even those whose answer is unknown, and returns its place or
// its error. It waits for the nodes that granted the claim, so that a refusal leaves nothing behind. It leaves a claim there
// that may hold by another client.
func (d *Driver) missedOut(
	ctx context.Context, c, claim *driver.Claim, r *round, votes []vote, cause error,
) (driver.Place, error) {
	if d.rule.mayHold(claim, votes, r.least, d.claims.ticketOf(claim.ID)) {
		return driver.Place{}, d.rule.still(votes, cause)
	}
	clean := d.takeOut(ctx, claim, r, votes)
	p, err := d.rule.missed(c, votes, cause, clean)
	if err == nil && !c.Try && sum(votes).granted > 0 {
		d.contention.missed(c.Name)
	}
	return p, err
}

// takeOut takes a claim out of the nodes that have it, or may have it. It reports whether certainly nothing of it is left.
func (d *Driver) takeOut(ctx context.Context, claim *driver.Claim, r *round, votes []vote) (clean bool) {
	out, granted := remains(votes)
	if clean = len(out) == len(granted); len(out) == 0 {
		return clean
	}
	// The removal takes its places in the queues now, before a later attempt, whose requests it must not undo.
	left, err := d.withdraw(claim, r, out, granted, d.rule.cannotHold(votes))
	if err != nil {
		return false
	}
	if len(granted) == 0 {
		return clean
	}
	answers, err := left.wait(ctx)
	for _, i := range granted {
		clean = clean && err == nil && (answers[i].err == nil || answers[i].gone())
	}
	return clean
}

// withdraw takes a claim out of some nodes, after the round by which it entered. The new round is decided when the nodes in
// first have answered. Unless the claim cannot hold, it may hold by another client, and stays on a node whose late vote
// shows that it stood there before.
func (d *Driver) withdraw(c *driver.Claim, entered *round, nodes, first []int, cannotHold bool) (*round, error) {
	enough := func(votes []vote) bool {
		return !slices.ContainsFunc(first, func(i int) bool { return !votes[i].came })
	}
	return d.rounds.ask(2*d.timeout(c.TTL), c.ID, nodes, enough, func(ctx context.Context, n *node) (driver.Place, error) {
		if !d.rule.goes(c, entered.vote(n.index), entered.least, d.claims.ticketOf(c.ID), cannotHold) {
			return driver.Place{}, nil
		}
		store, err := n.store()
		if err == nil {
			err = n.leave(ctx, store, c, 0)
		}
		if err != nil && !driver.NotApplied(err) {
			d.ids.draw(c.ID, n.index)
		}
		return driver.Place{}, err
	})
}
