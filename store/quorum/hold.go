package quorum

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A holding is a claim that holds, as this client knows it, from its entering to its leaving.
type holding struct {
	claim driver.Claim // with the ticket that it has; does not change

	record string // that it is to have on all nodes, with its version; guarded by mu, as the rest
	before string // that most nodes have which do not have it
	own    bool   // the claim was changed here

	until time.Duration // when it is over, unless it is renewed; by boottime

	missing []int        // nodes to repair
	absent  map[int]bool // nodes that certainly do not have it: they need not be asked to let it go
	repair  *time.Timer  // nil if none is due
	asks    int64        // how often somebody has asked for it
}

// holdLocked notes that a claim holds.
func (d *Driver) holdLocked(c *driver.Claim, ticket int64) *holding {
	h := &holding{claim: *c, record: c.Record, before: c.Record, absent: map[int]bool{}}
	if was := d.held[c.ID]; was != nil && was.claim.Ticket == ticket { // it was entered again
		h.record, h.before, h.own = was.record, was.before, was.own
	}
	d.releaseLocked(c.ID)
	if d.limit.Reached(len(d.held)) {
		d.forgetOverLocked()
	}
	h.claim.Ticket, h.until = ticket, known.Until(c.TTL)
	d.held[c.ID] = h
	return h
}

// heldTicket returns the ticket with which a claim is known to hold, or 0.
func (d *Driver) heldTicket(id string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.held[id]; h != nil {
		return h.claim.Ticket
	}
	return 0
}

// lacks reports whether a node certainly does not have a claim, which may be leaving.
func (d *Driver) lacks(h *holding, i int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return h != nil && h.absent[i]
}

// releaseLocked notes that a claim does not hold.
func (d *Driver) releaseLocked(id string) {
	if h := d.held[id]; h != nil {
		if h.repair != nil {
			h.repair.Stop()
		}
		delete(d.held, id)
	}
	d.leads.heard(id)
	delete(d.resuming, id)
}

// forgetOverLocked forgets claims that were not renewed here for longer than their leases: they may have been left to
// another client.
func (d *Driver) forgetOverLocked() {
	for id, h := range d.held {
		if known.Over(h.until) {
			d.releaseLocked(id)
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
		d.releaseLocked(c.ID)
	}
}

// forgetIDs forgets the ids of claims that are over. A claim that waits asks again while its lease lasts, so one that has not
// asked for longer than any lease is over, and nobody asks for its first id again, however late a request by that arrives.
func (d *Driver) forgetIDs(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids.forget(since, func(id string) bool { return d.held[id] != nil })
}
