package quorum

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
)

// missedOut takes a claim that has no majority out of the nodes, also of those whose answer is not known, and says what
// became of it. It waits for those that granted it, so that a refusal leaves nothing behind.
func (d *Driver) missedOut(
	ctx context.Context, c, claim *driver.Claim, r *round, votes []vote, n count, cause error,
) (driver.Place, error) {
	if d.mayHold(claim, votes, r.least) {
		return d.still(votes, n, cause)
	}
	clean := d.takeOut(ctx, claim, r, votes)
	switch {
	case cause != nil && clean: // nothing of it is left, and nobody has refused it
		return driver.Place{}, driver.Unsent(cause)
	case cause != nil:
		return driver.Place{}, cause
	case n.gone > len(d.nodes)-d.need:
		return driver.Place{}, driver.ErrGone
	case n.foreign > len(d.nodes)-d.need:
		i := slices.IndexFunc(votes, func(v vote) bool { return errors.Is(v.err, driver.ErrForeign) })
		return driver.Place{}, d.nodes[i].says(votes[i].err)
	case n.granted+n.refused+n.foreign+n.left < d.need:
		err := d.short(votes, n)
		if clean && slices.ContainsFunc(votes, asked) {
			err = driver.Refused(err)
		} else if clean {
			err = driver.Unsent(err)
		}
		return driver.Place{}, err
	}
	return d.waiting(c, votes, n), nil
}

// takeOut takes a claim out of the nodes that have it, or may. It reports whether nothing of it is left for certain.
func (d *Driver) takeOut(ctx context.Context, claim *driver.Claim, r *round, votes []vote) (clean bool) {
	clean = true
	var out, granted []int
	for i := range votes {
		switch v := &votes[i]; {
		case v.grants():
			out, granted = append(out, i), append(granted, i)
		case !v.came, v.unknown():
			out, clean = append(out, i), false
		}
	}
	if len(out) == 0 {
		return clean
	}
	// It takes its places in the queues now, before a later attempt, whose requests it must not undo.
	left, err := d.withdraw(claim, r, out, granted, d.refused(votes))
	if err != nil {
		return false
	}
	if len(granted) == 0 {
		return clean
	}
	answers, err := left.wait(ctx, d)
	for _, i := range granted {
		clean = clean && err == nil && (answers[i].err == nil || answers[i].gone())
	}
	return clean
}

// withdraw takes a claim out of some nodes, after the round in which it was to enter. The result is decided when some of
// them have answered. Unless the claim was refused, it may hold by another client, and stays where a late vote says that
// it stood.
func (d *Driver) withdraw(c *driver.Claim, entered *round, nodes, first []int, refused bool) (*round, error) {
	enough := func(votes []vote) bool {
		return !slices.ContainsFunc(first, func(i int) bool { return !votes[i].came })
	}
	return d.askNodes(2*d.timeout(c.TTL), c.ID, nodes, enough, func(ctx context.Context, n *node) (driver.Place, error) {
		switch v := entered.vote(n.index); {
		case v.came && !v.unknown() && !v.place.Holds: // there is nothing to take out
			return driver.Place{}, nil
		case !refused && d.early(c, v, entered.least):
			return driver.Place{}, nil
		}
		store, err := n.store()
		if err == nil {
			err = n.leave(ctx, store, c, 0)
		}
		if err != nil && !driver.NotApplied(err) {
			d.drawID(c.ID, n.index)
		}
		return driver.Place{}, err
	})
}
