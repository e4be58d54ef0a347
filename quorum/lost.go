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
	var out []int
	for i := range votes {
		switch v := &votes[i]; {
		case v.came && v.err == nil && v.place.Holds:
			out = append(out, i)
		case v.unknown():
			out, clean = append(out, i), false
		}
	}
	r.leave(votes, func(i int, v vote) {
		if v.unknown() || v.err == nil && v.place.Holds {
			_, _ = d.withdraw(claim, []int{i}) // the lease ends it if this does not
		}
	})
	if len(out) > 0 {
		left, err := d.withdraw(claim, out)
		if err == nil {
			answers, waited := left.wait(ctx, d)
			for _, i := range out {
				clean = clean && waited == nil && answers[i].came && (answers[i].err == nil || answers[i].gone())
			}
		}
	}
	switch {
	case cause != nil && clean:
		return driver.Place{}, driver.Rejected(cause)
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
		if clean {
			err = driver.Rejected(err)
		}
		return driver.Place{}, err
	}
	return d.waiting(c, votes, n), nil
}

// withdraw takes a claim out of some nodes, in the background.
func (d *Driver) withdraw(c *driver.Claim, nodes []int) (*round, error) {
	return d.ask(d.timeout(c.TTL), c.ID, nodes, never, func(ctx context.Context, n *node) (driver.Place, error) {
		store, err := n.store()
		if err == nil {
			err = store.Leave(ctx, &driver.Departure{Claim: d.as(c, n.index)})
		}
		if err != nil && !driver.IsRejected(err) {
			d.haunted(c.ID, n.index)
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
		d.missed[c.ID]++
		d.mu.Unlock()
	}
	var free []time.Duration // when each node may be, as far as they tell
	for _, v := range votes {
		switch {
		case !v.came || v.err != nil:
		case v.place.Holds:
			free = append(free, 0)
		default:
			free = append(free, v.place.Retry)
			if b := v.place.Blocker; p.Blocker.Weight == 0 || b.Record != "" && p.Blocker.Record == "" {
				p.Blocker = b
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
