package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A node that lacks a claim that holds gets the claim again. But another client may have removed the claim by then, and the
// repaired nodes, together with late requests elsewhere, could keep everybody out. So the other nodes are asked first:
//
//	lacks it ──a majority may have it──► is given it, and the claim's ticket
//	    └───── certainly no majority ──► stays as it is, and the claim is over here
//
// The claim is never taken back from a repaired node: a renewal may have counted it.

// repairAfter is the part of the lease that passes before a node is asked again that lacks a claim: a twentieth. Most locks
// are free by then.
const repairAfter = 20

// caughtUp takes a node's vote on a claim that holds. A claim that no more than a majority has is one failure from being
// lost, so its client goes on asking the other nodes.
func (d *Driver) caughtUp(h *holding, i int, v vote) {
	if v.err == nil && v.place.Holds {
		if d.rule.ranked && v.place.Ticket != h.claim.Ticket {
			// The claim holds by the other nodes, which have its ticket. This node's answer does not matter.
			raise := func(ctx context.Context, n *node) (driver.Place, error) {
				return driver.Place{}, n.raise(ctx, d.ids.as(&h.claim, i), h.claim.Ticket)
			}
			_, _ = d.rounds.ask(d.timeout(h.claim.TTL), h.claim.ID, []int{i}, never, raise)
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.err == nil || driver.NotApplied(v.err) {
		h.absent[i] = true // even for a claim that is leaving
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

// left reports whether a claim has certainly left: no majority can have it, by the nodes that are known to lack it and by
// the answers of the others. These are asked to renew the claim, since a renewal finds it by its id only.
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

// never is for a round that is decided only when all its nodes have answered.
func never([]vote) bool { return false }

// repair enters a claim that holds on the nodes that lack it, unless it has left by another client. The entries do not count
// until the next renewal, so they make no lease longer than was confirmed. The check that the claim still holds here, and
// the places in the queues, are under one lock, so that the entries do not come after a Leave.
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

// giveLocked enters a claim that holds on nodes that lack it.
func (d *Driver) giveLocked(h *holding, nodes []int) {
	for _, i := range nodes {
		delete(h.absent, i)
	}
	claim := h.claim
	claim.Try, claim.Reclaim, claim.Ticket, claim.Record = true, false, 0, h.record
	// The answers do not matter: the next renewal finds the nodes that still lack the claim.
	give := func(ctx context.Context, n *node) (driver.Place, error) {
		p, err := n.enter(ctx, &claim, h.claim.Ticket)
		if err == nil && p.Holds && d.rule.ranked && p.Ticket != h.claim.Ticket {
			err = n.raise(ctx, d.ids.as(&claim, n.index), h.claim.Ticket)
		}
		return p, err
	}
	_, _ = d.rounds.askLocked(d.timeout(claim.TTL), claim.ID, nodes, never, give)
}
