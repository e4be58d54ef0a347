package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
)

// If many claims ask all nodes for one name at once, each gets some of the votes, and none gets enough. So a claim that
// waits does so at one node, the lead, which is the same for all clients. When the lead may be free, the claim asks it
// first, and the other nodes only if the lead grants the claim. The claim still needs a majority. The lead affects only the
// time of requests: safety does not rest on it.
//
// Over a link with a round trip of 2.3 ms, 64 clients on one name of three servers make twice as many locks with a lead as
// without. For each lock the processors of the servers, and of the clients, work 1/2.6 of the time. 8 clients make as many
// locks as without, for 1/1.4 of the work (make bench-before with STORES=redlock LINK=1ms ONLY=^wait-, against a tree where
// lead returns nil).

const (
	stuckAfter = 100 * time.Millisecond // how long a claim waits at a taken lead until it looks at the other nodes
	stuckMost  = time.Second            // the same, after several looks
	stuckAgain = 20 * time.Millisecond  // until a second look at the other nodes, if they are free
	skippedFor = 10 * time.Second       // for how long a node that is stuck or does not answer leads no claim
)

// lead returns the node at which a claim waits, or nil if there is none.
func (d *Driver) lead(name string) *node {
	if !d.rule.ranked {
		return nil
	}
	skipped := d.leads.skips(name, time.Now())
	for _, n := range d.nodes.order(name) {
		if _, err := n.reachable(); err == nil && n.bar() == nil && n != skipped {
			return n
		}
	}
	return nil
}

// leading returns a claim's next step. The claim asks one node before the others if it has waited at that node, or if other
// claims are known to want the name.
func (d *Driver) leading(c *driver.Claim) next {
	if c.Try || c.Reclaim || c.Ticket > waitingTicket {
		return next{}
	}
	n, waited := d.leads.heard(c.ID)
	if !waited && !d.contention.below(c.Name, 1) {
		return next{lead: d.lead(c.Name), waits: true}
	}
	return n
}

// leadWithin returns how long a claim waits for the lead's answer before it asks the other nodes without it.
func (d *Driver) leadWithin(ttl time.Duration) time.Duration { return d.timeout(ttl) / 4 }

// askLead asks the lead for a place. If the lead answers in time, its answer is in the votes.
func (d *Driver) askLead(
	ctx context.Context, claim *driver.Claim, lead *node, waits bool, least int64,
) (*round, []vote, error) {
	enter := func(ctx context.Context, n *node) (driver.Place, error) {
		own := *claim
		if waits {
			own.Ticket = waitingTicket
		}
		return n.enter(ctx, &own, least)
	}
	r, err := d.rounds.ask(d.timeout(claim.TTL), claim.ID, []int{lead.index}, never, enter)
	if err != nil {
		return nil, nil, err
	}
	r.least = least
	within, cancel := context.WithTimeout(ctx, d.leadWithin(claim.TTL))
	defer cancel()
	votes, err := r.wait(within)
	if within.Err() != nil && ctx.Err() == nil {
		d.leads.skip(lead, claim.Name, time.Now())
		err = nil
	}
	return r, votes, err
}

// late returns the place of a claim that its lead refused. If no claim had a majority in an earlier attempt, the claim in
// the way may have left most nodes already, and be about to leave the lead. If most nodes are still free, split is true, and
// the claim asks again at once. It does not do so under contention, when another claim is just getting the name.
func (d *Driver) late(
	ctx context.Context, c *driver.Claim, to next, v *vote, try int,
) (p driver.Place, split bool, err error) {
	p = driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1, Blocker: d.rule.shown(v.place.Blocker), Retry: v.place.Retry}
	alone := d.contention.below(c.Name, try)
	// A claim that asked only to wait counts too, though perhaps nobody was quicker. Without it, the estimates of the
	// clients differ more: sixteen processes made a fifth fewer hand-overs, and Jain's index fell from 0.9 to 0.7.
	d.contention.missed(c.Name)
	if !to.waits {
		d.leads.tell(c.ID, next{lead: to.lead, waits: true, late: true})
	}
	if alone && try > 1 {
		split, _, err = d.unlead(ctx, to.lead, c)
	}
	return p, split, err
}

// awaitLead waits until the lead may be free, or only the lead is not. It returns false if the lead cannot tell.
func (d *Driver) awaitLead(ctx context.Context, n *node, c *driver.Claim) (told bool, err error) {
	store, err := n.reachable()
	if err != nil {
		return false, nil //nolint:nilerr // the others can tell
	}
	for look := stuckAfter; ; look = min(2*look, stuckMost) {
		within, cancel := context.WithTimeout(ctx, look/2+rand.N(look/2))
		_, err := store.Await(within, c)
		late := within.Err() != nil
		cancel()
		switch {
		case err == nil:
			d.leads.tell(c.ID, next{lead: n})
			return true, nil
		case ctx.Err() != nil:
			return false, driver.Ended(ctx, true)
		case errors.Is(err, driver.ErrClosed):
			return false, err
		case !late:
			return false, nil
		}
		if told, ok, err := d.unlead(ctx, n, c); !ok || err != nil {
			return told, err
		}
	}
}

// unlead returns ok if a claim goes on waiting at its lead: the lead answers and is taken, and so are most nodes. If the
// lead is free, told is true, and the claim asks it first. If most nodes are free and the lead is not, not even a moment
// later, other nodes lead from then on, told is true, and the claim asks all nodes at once: a claim whose client died, or
// did not reach the lead to leave it, must not keep all waiters there until its lease is over. Other nodes also lead if the
// lead does not answer.
func (d *Driver) unlead(ctx context.Context, lead *node, c *driver.Claim) (told, ok bool, err error) {
	for range 2 {
		free, err := d.freeAt(ctx, lead, c)
		if err != nil {
			d.leads.skip(lead, c.Name, time.Now())
			return false, false, driver.Ended(ctx, true)
		}
		if free {
			d.leads.tell(c.ID, next{lead: lead}) // the claim missed the notification
			return true, false, nil
		}
		if !d.free(ctx, c) {
			return false, true, nil
		}
		if err := d.workers.pause(ctx, stuckAgain); err != nil {
			return false, false, err
		}
	}
	d.leads.skip(lead, c.Name, time.Now())
	d.leads.tell(c.ID, next{}) // it asks all nodes at once
	return true, false, nil
}

// freeAt reports whether a node is free, if it answers in time.
func (d *Driver) freeAt(ctx context.Context, n *node, c *driver.Claim) (bool, error) {
	store, err := n.store()
	if err != nil {
		return false, err
	}
	within, cancel := context.WithTimeout(ctx, d.leadWithin(c.TTL))
	defer cancel()
	return store.(Member).Free(within, c.Name)
}

// forgetful notes that a lead granted a claim while another claim stood on a majority; first is nil if no lead voted, and by
// is nil if there is no such claim. This claim may be leaving, and may have left the lead first. But if it stays, the lead
// has lost it. The waiters at the lead would hear again and again that the lock is free, and be in the way when the holder
// gives the lead its claim back. So other nodes lead.
func (d *Driver) forgetful(lead *node, first []vote, name string, by *driver.ClaimInfo) {
	if now := time.Now(); first != nil && by != nil && d.leads.forgets(d.rule, lead, name, by, now) {
		d.leads.skip(lead, name, now)
	}
}
