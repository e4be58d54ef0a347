package quorum

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A holding is a claim that holds, as this client knows it, from its entering to its leaving.
type holding struct {
	claim driver.Claim // with the ticket that it has; does not change

	record string // that it is to have on all nodes, with its version; guarded by the driver's mu, as the rest
	before string // that most nodes have which do not have it
	own    bool   // the claim was changed here

	until time.Duration // when it is over, unless it is renewed; by boottime

	missing []int        // nodes to repair
	absent  map[int]bool // nodes that certainly do not have it: they need not be asked to let it go
	repair  *time.Timer  // nil if none is due
	asks    int64        // how often somebody has asked for it
}

// hold notes that a claim holds. The caller holds mu.
func (d *Driver) hold(c *driver.Claim, ticket int64) *holding {
	h := &holding{claim: *c, record: c.Record, before: c.Record, absent: map[int]bool{}}
	if was := d.held[c.ID]; was != nil && was.claim.Ticket == ticket { // it was entered once more
		h.record, h.before, h.own = was.record, was.before, was.own
	}
	d.release(c.ID)
	if d.limit.Reached(len(d.held)) {
		d.forgetOver()
	}
	h.claim.Ticket, h.until = ticket, known.Until(c.TTL)
	d.held[c.ID] = h
	return h
}

// lacks reports whether a node certainly does not have a claim, which may be leaving.
func (d *Driver) lacks(h *holding, i int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return h != nil && h.absent[i]
}

// release notes that a claim does not hold. The caller holds mu.
func (d *Driver) release(id string) {
	if h := d.held[id]; h != nil {
		if h.repair != nil {
			h.repair.Stop()
		}
		delete(d.held, id)
	}
	delete(d.told, id)
	delete(d.resuming, id)
}

// forgetOver forgets claims that were not renewed here for longer than their leases: they may have been left to another
// client. The caller holds mu.
func (d *Driver) forgetOver() {
	for id, h := range d.held {
		if known.Over(h.until) {
			d.release(id)
		}
	}
	d.limit.Swept(len(d.held))
}

// over forgets claims that came to their end in another way than by leaving.
func (d *Driver) over(cs ...*driver.Claim) {
	if len(cs) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range cs {
		d.release(c.ID)
	}
}

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
		if err == nil && p.Holds && d.ranked && p.Ticket != h.claim.Ticket {
			err = n.raise(ctx, d.as(&claim, n.index), h.claim.Ticket)
		}
		return p, err
	})
}
