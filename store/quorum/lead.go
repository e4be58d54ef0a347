package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
)

// Of many who ask all nodes for one name at once, each gets some of them, and none enough. So a claim that waits does so
// at one node, which is the same for all clients; when that may be free, the claim asks it first, and the rest if it
// grants the claim. It still needs a majority: which node leads changes when requests are sent, and nothing that is relied
// on.
//
// Over a link with a round trip of 2.3 ms, 64 clients on one name of three servers make twice as many locks with a lead as
// without, and for each the servers' processors work 1/2.6 of the time, and the clients' too; 8 clients make as many locks, for
// 1/1.4 of the work (make bench-before with STORES=redlock LINK=1ms ONLY=^wait-, against a tree where lead returns nil).

const (
	stuckAfter = 100 * time.Millisecond // since a lead that is taken was waited for: until the others are looked at
	stuckMost  = time.Second            // the same, after a while
	stuckAgain = 20 * time.Millisecond  // until they are looked at again, if they are free
	skippedFor = 10 * time.Second       // for how long one that is stuck or does not answer leads nobody
)

// lead returns the node that a claim waits at, or nil if there is none.
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

// leading returns the nodes that a claim asks: one node before the others if it has waited at that, or many are known
// to want the name.
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

// leadWithin is how long a lead may take for an answer until it is done without.
func (d *Driver) leadWithin(ttl time.Duration) time.Duration { return d.timeout(ttl) / 4 }

// askLead asks one node for a place. What it answers in time stands in the round's votes.
func (d *Driver) askLead(ctx context.Context, claim *driver.Claim, lead *node, waits bool, least int64) (*round, []vote, error) {
	r, err := d.rounds.ask(d.timeout(claim.TTL), claim.ID, []int{lead.index}, never, func(ctx context.Context, n *node) (driver.Place, error) {
		own := *claim
		if waits {
			own.Ticket = waitingTicket
		}
		return n.enter(ctx, &own, least)
	})
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

// late is the place of a claim that its lead refused. Where no claim had a majority in a try before, the obstacle may
// have left most nodes, as its client heard, and be about to leave this one. If most are still free, the claim is to
// ask again at once: but not where others are known to want the name, of whom one is just getting it.
func (d *Driver) late(ctx context.Context, c *driver.Claim, to next, v *vote, try int) (p driver.Place, split bool, err error) {
	p = driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1, Blocker: d.rule.shown(v.place.Blocker), Retry: v.place.Retry}
	alone := d.contention.below(c.Name, try)
	// Counted too where the claim asked to wait, and perhaps nobody was quicker. Without, what clients believe differs more:
	// sixteen processes passed the lock on a fifth less often, and Jain's index fell from 0.9 to 0.7.
	d.contention.missed(c.Name)
	if !to.waits {
		d.leads.tell(c.ID, next{lead: to.lead, waits: true, late: true})
	}
	if alone && try > 1 {
		split, _, err = d.unlead(ctx, to.lead, c)
	}
	return p, split, err
}

// awaitLead waits until a node may be free, or it alone is not. It reports false if the node cannot tell.
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

// unlead looks whether a lead that is waited at is any use, and reports ok if it is: it answers, and it is free if most
// are, unless somebody is just getting them. One that did not reach the lead to leave it, or died in between, must not
// keep all others waiting until its lease is over. If the lead is none, others lead from then on, and the claim is to ask
// all nodes if most are free.
func (d *Driver) unlead(ctx context.Context, lead *node, c *driver.Claim) (told, ok bool, err error) {
	for range 2 {
		free, err := d.freeAt(ctx, lead, c)
		if err != nil {
			d.leads.skip(lead, c.Name, time.Now())
			return false, false, driver.Ended(ctx, true)
		}
		if free {
			d.leads.tell(c.ID, next{lead: lead}) // which was not heard
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
	d.leads.tell(c.ID, next{}) // all at once
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

// forgetful notes that a lead, if it voted first, granted a claim while another stood on a majority, if one did. One
// that is leaving may have left the lead first. But if it stays, the lead has lost it, and the waiters there would
// hear again and again that the lock is free, and be in the way when the holder gives the lead its claim back: others
// lead.
func (d *Driver) forgetful(lead *node, first []vote, name string, by *driver.ClaimInfo) {
	if now := time.Now(); first != nil && by != nil && d.leads.forgets(d.rule, lead, name, by, now) {
		d.leads.skip(lead, name, now)
	}
}
