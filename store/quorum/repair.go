package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A node that lacks a claim which holds gets the claim again. Another client may have removed the claim by then, and
// together with late requests elsewhere, the repaired nodes could keep everybody out. So the others are asked first:
//
//	lacks it ──a majority may have it──► is given it, and the claim's ticket
//	    └───── certainly no majority ──► stays as it is, and the claim is over here
//
// What a node was given is never taken back: a renewal may have counted it.

// repairAfter is which part of the lease passes before a node that a claim lacks is asked again: most locks are free by
// then.
const repairAfter = 20

// caughtUp takes a node's vote on a claim that holds. A claim that has no more nodes than it needs is one failure from
// being lost, so it goes on asking for the others.
func (d *Driver) caughtUp(h *holding, i int, v vote) {
	if v.err == nil && v.place.Holds {
		if d.rule.ranked && v.place.Ticket != h.claim.Ticket {
			// The claim holds by the others, which have its ticket. What the node says counts for nothing.
			_, _ = d.rounds.ask(d.timeout(h.claim.TTL), h.claim.ID, []int{i}, never, func(ctx context.Context, n *node) (driver.Place, error) {
				return driver.Place{}, n.raise(ctx, d.ids.as(&h.claim, i), h.claim.Ticket)
			})
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.err == nil || driver.NotApplied(v.err) {
		h.absent[i] = true // also for a claim that is leaving
	}
	if d.claims.held[h.claim.ID] != h || d.workers.ended {
		return
	}
	h.missing = append(h.missing, i)
	d.repairSoonLocked(h)
}

// repairSoonLocked schedules the repair of the nodes that a claim lacks, unless that is due already.
func (d *Driver) repairSoonLocked(h *holding) {
	if h.repair == nil {
		h.repair = time.AfterFunc(h.claim.TTL/repairAfter, func() { d.repair(h) })
	}
}

// left reports whether it is certain that a claim has left: so many nodes do not have it, with those that are known to
// lack it, that it stands on no majority. The others are asked to renew it, since they tell so by its id alone.
func (d *Driver) left(h *holding, lacking []int) bool {
	var others []int
	for i := range d.nodes.list {
		if !slices.Contains(lacking, i) {
			others = append(others, i)
		}
	}
	gone := func(votes []vote) bool { return d.rule.prevents(len(d.nodes.list) - len(others) + sum(votes).gone) }
	claim := h.claim
	claim.Amend = nil
	r, err := d.rounds.ask(d.timeout(claim.TTL), "", others, func(votes []vote) bool {
		return d.rule.granted(votes) || gone(votes)
	}, func(ctx context.Context, n *node) (driver.Place, error) {
		a := n.renew(ctx, []*driver.Claim{&claim}, d.claims.newest)[0]
		return driver.Place{Holds: a.Err == nil}, a.Err
	})
	if err != nil {
		return false
	}
	votes, _ := r.wait(context.Background())
	return gone(votes)
}

// never is enough for a round that nobody waits for.
func never([]vote) bool { return false }

// repair enters a claim that holds on the nodes that it lacks, unless it has left by another client. It counts for nothing until
// the next renewal, so it never makes a lease longer than was confirmed. Whether the claim still holds here is looked at together
// with taking a place in the queue, so that it does not come after the leaving.
func (d *Driver) repair(h *holding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	nodes := h.missing
	h.missing, h.repair = nil, nil
	if d.claims.held[h.claim.ID] != h || len(nodes) == 0 || d.workers.ended {
		return
	}
	d.workers.tasks.Go(func() {
		gone := d.left(h, nodes)
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case d.claims.held[h.claim.ID] != h:
		case gone:
			d.claims.releaseLocked(h.claim.ID)
		default:
			d.giveLocked(h, nodes)
		}
	})
}

// giveLocked enters a claim that holds on some nodes.
func (d *Driver) giveLocked(h *holding, nodes []int) {
	for _, i := range nodes {
		delete(h.absent, i)
	}
	claim := h.claim
	claim.Try, claim.Reclaim, claim.Ticket, claim.Record = true, false, 0, h.record
	// What the nodes say counts for nothing until the next renewal, which finds those that still lack the claim.
	_, _ = d.rounds.askLocked(d.timeout(claim.TTL), claim.ID, nodes, never, func(ctx context.Context, n *node) (driver.Place, error) {
		p, err := n.enter(ctx, &claim, h.claim.Ticket)
		if err == nil && p.Holds && d.rule.ranked && p.Ticket != h.claim.Ticket {
			err = n.raise(ctx, d.ids.as(&claim, n.index), h.claim.Ticket)
		}
		return p, err
	})
}
