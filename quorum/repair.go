package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A node that lacks a claim which holds is given the claim anew, at first by the vote that is late, later by a repair. Another
// client may have had the claim leave by then, and what comes after that would keep everybody out. So the others are asked:
//
//	lacks it ──a late vote, a repair──► was given it ──a majority may have it──► has it, with its ticket
//	                                         └──────── certainly no majority ──► it is taken out, and is over here

// repairAfter is which part of the lease passes before a node that a claim lacks is asked again: most locks are free by
// then.
const repairAfter = 20

// caughtUp takes a node's vote on a claim that holds. A claim that has no more nodes than it needs is one failure from
// being lost, so it goes on asking for the others.
func (d *Driver) caughtUp(h *holding, i int, v vote) {
	if v.err == nil && v.place.Holds {
		if d.ranked && v.place.Ticket != h.claim.Ticket {
			_, _ = d.ask(d.timeout(h.claim.TTL), h.claim.ID, []int{i}, never, func(ctx context.Context, n *node) (driver.Place, error) {
				return driver.Place{}, n.raise(ctx, d.as(&h.claim, i), h.claim.Ticket)
			})
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.err == nil || driver.NotApplied(v.err) {
		h.absent[i] = true // also for a claim that is leaving
	}
	if d.held[h.claim.ID] != h || d.ended {
		return
	}
	h.missing = append(h.missing, i)
	if h.repair == nil {
		h.repair = time.AfterFunc(h.claim.TTL/repairAfter, func() { d.repair(h) })
	}
}

// cameLate is caughtUp for a vote that came when the claim held already.
func (d *Driver) cameLate(h *holding, i int, v vote) {
	if !h.elsewhere || !v.grants() || v.place.Ticket == h.claim.Ticket {
		d.caughtUp(h, i, v)
		return
	}
	only := []int{i}
	_, _ = d.ask(d.timeout(h.claim.TTL), h.claim.ID, only, never, func(ctx context.Context, n *node) (driver.Place, error) {
		return driver.Place{}, n.given(ctx, h, only)
	})
}

// given settles what a node has of a claim that it was given when the claim held already. The others tell whether the claim
// holds still.
func (n *node) given(ctx context.Context, h *holding, anew []int) error {
	d := n.d
	switch {
	case !d.left(ctx, h, anew):
		if !d.ranked {
			return nil
		}
		return n.raise(ctx, d.as(&h.claim, n.index), h.claim.Ticket)
	case !d.ends(h): // it is taken out next, or what stands there may be of a later attempt
		return nil
	}
	store, err := n.store()
	if err != nil {
		return err
	}
	own := h.claim
	own.Ticket = 0
	return n.leave(ctx, store, &own, 0)
}

// left reports whether it is certain that a claim has left, which some nodes were given anew: so many of the others do not have
// it that it stood on no majority before.
func (d *Driver) left(ctx context.Context, h *holding, anew []int) bool {
	var others []int
	for _, i := range d.all {
		if !slices.Contains(anew, i) {
			others = append(others, i)
		}
	}
	has := func(votes []vote) int { return d.count(votes).granted }
	lack := func(votes []vote) int {
		n := d.count(votes)
		return len(d.nodes) - len(others) + n.gone + n.foreign
	}
	r, err := d.ask(d.timeout(h.claim.TTL), "", others, func(votes []vote) bool {
		return has(votes) >= d.need || lack(votes) > len(d.nodes)-d.need
	}, func(ctx context.Context, n *node) (driver.Place, error) {
		err := n.has(ctx, &h.claim)
		return driver.Place{Holds: err == nil}, err
	})
	if err != nil {
		return false
	}
	votes, _ := r.wait(ctx, d)
	return lack(votes) > len(d.nodes)-d.need
}

// has returns nil if a claim that held stands on a node with its ticket.
func (n *node) has(ctx context.Context, c *driver.Claim) error {
	store, err := n.store()
	if err != nil {
		return err
	}
	if !n.d.ranked { // such a node only tells by a renewal
		return store.Renew(ctx, []*driver.Claim{n.d.as(c, n.index)})[0].Err
	}
	m := store.(Member)
	_, err = ask(ctx, n, m, func() (*driver.Claim, error) { return m.Find(ctx, c) })
	return err
}

// never is enough for a round that nobody waits for.
func never([]vote) bool { return false }

// repair enters a claim that holds on the nodes that it lacks. It counts for nothing until the next renewal, so it never
// makes a lease longer than was confirmed. Whether the claim still holds is looked at together with taking a place in
// the queue, so that it does not come after the leaving.
func (d *Driver) repair(h *holding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	nodes := h.missing
	h.missing, h.repair = nil, nil
	if d.held[h.claim.ID] != h || len(nodes) == 0 {
		return
	}
	for _, i := range nodes {
		delete(h.absent, i)
	}
	claim := h.claim
	claim.Try, claim.Reclaim, claim.Ticket, claim.Record = true, false, 0, h.record
	_, _ = d.askLocked(d.timeout(claim.TTL), claim.ID, nodes, never, func(ctx context.Context, n *node) (driver.Place, error) {
		p, err := n.enter(ctx, &claim, h.claim.Ticket)
		if err == nil && p.Holds && !(d.ranked && p.Ticket == h.claim.Ticket) {
			err = n.given(ctx, h, nodes)
		}
		return p, err
	})
}
