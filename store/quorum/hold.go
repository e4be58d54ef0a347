package quorum

import (
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A holding is this client's memory of a claim that holds, from its Enter to its Leave.
type holding struct {
	claim driver.Claim // with its ticket; does not change

	record string // the record for all nodes, with its version; guarded by mu, as the rest
	before string // the record that the other nodes mostly have
	own    bool   // the claim was changed here

	until time.Duration // when the lease is over, unless it is renewed; by boottime

	missing []int        // nodes to repair
	absent  map[int]bool // nodes that certainly lack it: Leave does not ask them while they rest
	repair  *time.Timer  // nil if none is due
	asks    int64        // how often somebody has asked for the lock
}

// claims has the claims that hold here, and the claims that are being taken up from another process.
type claims struct {
	ids   *ids
	leads *leads

	mu       *sync.Mutex            // guards what follows, and the changing fields of holdings; the driver's
	held     map[string]*holding    // by id
	limit    known.Limit            // of held
	resuming map[string]*resumption // by id
}

// holdLocked notes that a claim holds.
func (t *claims) holdLocked(c *driver.Claim, ticket int64) *holding {
	h := &holding{claim: *c, record: c.Record, before: c.Record, absent: map[int]bool{}}
	if was := t.held[c.ID]; was != nil && was.claim.Ticket == ticket { // the claim was entered again
		h.record, h.before, h.own = was.record, was.before, was.own
	}
	t.releaseLocked(c.ID)
	if t.limit.Reached(len(t.held)) {
		t.forgetOverLocked()
	}
	h.claim.Ticket, h.until = ticket, known.Until(c.TTL)
	t.held[c.ID] = h
	return h
}

// ticketOf returns the ticket with which a claim is known to hold, or 0.
func (t *claims) ticketOf(id string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[id]; h != nil {
		return h.claim.Ticket
	}
	return 0
}

// lacks reports whether a node certainly lacks a claim, which may be leaving. h may be nil.
func (t *claims) lacks(h *holding, i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return h != nil && h.absent[i]
}

// releaseLocked notes that a claim neither holds nor is taken up.
func (t *claims) releaseLocked(id string) {
	if h := t.held[id]; h != nil {
		if h.repair != nil {
			h.repair.Stop()
		}
		delete(t.held, id)
	}
	t.leads.heard(id)
	delete(t.resuming, id)
}

// forgetOverLocked forgets claims that were not renewed here for longer than their leases: they may have been left to
// another client.
func (t *claims) forgetOverLocked() {
	for id, h := range t.held {
		if known.Over(h.until) {
			t.releaseLocked(id)
		}
	}
	t.limit.Swept(len(t.held))
}

// over forgets claims that ended without a Leave.
func (t *claims) over(cs ...*driver.Claim) {
	if len(cs) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range cs {
		t.releaseLocked(c.ID)
	}
}

// forgetIDs forgets the drawn ids of claims that are over. A claim that waits asks again while its lease lasts. So a claim
// that has not asked for longer than any lease is over, and nobody enters it by its first id again, however late a request
// by that id arrives.
func (t *claims) forgetIDs(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids.forget(since, func(id string) bool { return t.held[id] != nil })
}
