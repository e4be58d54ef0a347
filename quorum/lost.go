package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// missedOut takes a claim that has no majority out of the nodes, also of those whose answer is not known, and says what
// became of it. It waits for those that granted it, so that a refusal leaves nothing behind.
func (d *Driver) missedOut(ctx context.Context, c, claim *driver.Claim, r *round, votes []vote, n count, cause error) (driver.Place, error) {
	clean := n.left == 0
	var out, granted []int
	for i := range votes {
		switch v := &votes[i]; {
		case v.grants():
			out, granted = append(out, i), append(granted, i)
		case !v.came, v.unknown():
			out, clean = append(out, i), false
		}
	}
	if len(out) > 0 {
		// Its places in the queues are taken now, before those of a later attempt, which they must not undo.
		left, err := d.withdraw(claim, r, out, granted)
		if err == nil && len(granted) > 0 {
			answers, waited := left.wait(ctx, d)
			for _, i := range granted {
				clean = clean && waited == nil && (answers[i].err == nil || answers[i].gone())
			}
		}
	}
	switch {
	case cause != nil && clean: // nothing of it is left, and nobody has refused it
		return driver.Place{}, driver.Unsent(cause)
	case cause != nil:
		return driver.Place{}, cause
	case n.gone > len(d.nodes)-d.need:
		return driver.Place{}, driver.ErrGone
	case n.foreign > len(d.nodes)-d.need:
		for i, v := range votes {
			if v.err != nil && !v.unknown() {
				return driver.Place{}, fmt.Errorf("node %s: %w", d.nodes[i].name, v.err)
			}
		}
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

// asked reports whether a node was asked, as far as its vote tells.
func asked(v vote) bool { return driver.OutcomeOf(v.err) != driver.OutcomeUnsent }

// withdraw takes a claim out of some nodes, after the round in which it was to enter. The result is decided when some of
// them have answered.
func (d *Driver) withdraw(c *driver.Claim, entered *round, nodes, first []int) (*round, error) {
	enough := func(votes []vote) bool {
		return !slices.ContainsFunc(first, func(i int) bool { return !votes[i].came })
	}
	return d.ask(2*d.timeout(c.TTL), c.ID, nodes, enough, func(ctx context.Context, n *node) (driver.Place, error) {
		if v := entered.vote(n.index); v.came && !v.unknown() && !v.place.Holds {
			return driver.Place{}, nil // there is nothing to take out
		}
		store, err := n.store()
		if err == nil {
			err = store.Leave(ctx, &driver.Release{Claim: d.as(c, n.index)})
		}
		if err != nil && !driver.NotApplied(err) {
			d.noteLateLeave(c.ID, n.index)
		}
		return driver.Place{}, err
	})
}

// waiting is the place of a claim that others are in the way of.
func (d *Driver) waiting(c *driver.Claim, votes []vote, n count) driver.Place {
	p := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1}
	if c.Try {
		p.Ticket, p.TTL = 0, 0
	} else if n.granted > 0 {
		d.mu.Lock()
		d.missed(c.Name)
		d.mu.Unlock()
	}
	var free []time.Duration // when each node may be, as far as they tell
	most := 0
	for _, v := range votes {
		switch {
		case !v.came || v.err != nil:
		case v.place.Holds:
			free = append(free, 0)
		default:
			free = append(free, v.place.Retry)
			if same := d.standing(votes, v.place.Blocker); same > most {
				p.Blocker, most = v.place.Blocker, same
			}
		}
	}
	if !d.ranked {
		p.Blocker.Ticket = 0 // it has another on each node
	}
	slices.Sort(free)
	if len(free) >= d.need {
		p.Retry = free[d.need-1]
	}
	return p
}

// standing counts the nodes where a claim stands in the way.
func (d *Driver) standing(votes []vote, b driver.ClaimInfo) (n int) {
	for _, v := range votes {
		other := v.place.Blocker
		if v.came && v.err == nil && !v.place.Holds && other.Record == b.Record && (other.Ticket == b.Ticket || !d.ranked) {
			n++
		}
	}
	return n
}
