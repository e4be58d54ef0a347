package curator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/line"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A whole claim is a claim of a semaphore, which has several nodes: its lock node under locks, and one node under leases for
// each permit. Each node has a local claim of its own, by the rules of all local claims. A wholeClaim lists these nodes.
//
//	               its lock node        its lock node          it has all permits, and
//	              is not the first         is first            its lock node was there
//	  ┌────────┐     ┌────────┐           ┌────────┐           ┌─────────┐
//	─►│ asking │────►│ queued │──────────►│ taking │──────────►│ holding │
//	  └───┬────┘     └───┬────┘           └───┬────┘           └────┬────┘
//	      └──────────────┴────────────────────┴─────────────────────┤ Leave
//	                                                          ┌─────▼────────────┐
//	                                                          │ leaving, keeping │
//	                                                          └──────────────────┘
//
// This is the protocol of Curator's InterProcessSemaphoreV2. The first claim under locks makes nodes under leases, and
// waits until there is room for them; meanwhile nobody else makes any. Each claim judges by the nodes that exist after its
// own was made. So of all claims that hold, the one whose node came last has seen the nodes of all others, whoever made
// them.
//
// The claim's ticket is the ticket of its lock node. Claims come to hold in the order of their tickets: the lock node still
// exists after the last permit was made, and until then nobody behind it can get a permit.
type wholeClaim struct {
	id, dir, tag string
	size         int // how many nodes it has under leases: one for each permit, or 1 if it takes them all

	phase  phase       // the keeper's mu guards it and the fields below
	first  znode.First // the lock node
	leases []int64     // the tickets of the nodes under leases that were made
}

// A phase is a step on the way of a whole claim.
type phase int

const (
	partsAsking  phase = iota // its lock node was asked for, and it is not certain yet that the claim may stay
	partsQueued               // its lock node waits
	partsTaking               // its lock node is first, and it asks for its permits
	partsHolding              // it has all permits, and the lock node goes
	partsLeaving              // all its nodes must go
	partsKeeping              // its permits stay for a while
)

func newWholeClaim(dir string, c *driver.Claim) *wholeClaim {
	w := &wholeClaim{id: c.ID, dir: dir, tag: znode.ShapeTag(c), size: int(c.Weight)}
	if c.Weight == driver.All {
		w.size = 1
	}
	return w
}

// wholeClaimOf returns the whole claim with an id, or nil.
func (sem *Semaphore) wholeClaimOf(id string) *wholeClaim {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return sem.wholes[id]
}

// lockPartLocked returns the claim with the lock node. Its lease is the shorter one of the whole claim's leases.
func (w *wholeClaim) lockPartLocked(c *driver.Claim) *driver.Claim {
	e := *c
	e.ID, e.Ticket, e.Try = znode.PartID(w.id, w.tag), w.first.Ticket, false
	e.Weight, e.Capacity = driver.All, driver.All
	e.Wait = min(c.Wait, c.TTL)
	e.TTL = e.Wait
	return &e
}

// permitLocked returns the claim with the node of one permit.
func (w *wholeClaim) permitLocked(c *driver.Claim, i int) *driver.Claim {
	e := *c
	e.ID, e.Ticket, e.Try, e.Reclaim = znode.PartID(w.id, fmt.Sprint(i+1, w.tag)), 0, false, false
	if i < len(w.leases) {
		e.Ticket = w.leases[i]
	}
	if c.Weight != driver.All {
		e.Weight = 1
	}
	if w.phase < partsHolding {
		e.Wait = min(c.Wait, c.TTL)
		e.TTL = e.Wait
	}
	return &e
}

// partsLocked returns the claims that may have a node now.
func (w *wholeClaim) partsLocked(c *driver.Claim) (list []*driver.Claim) {
	for i := range w.leases {
		list = append(list, w.permitLocked(c, i))
	}
	if w.phase != partsHolding {
		list = append(list, w.lockPartLocked(c))
	}
	return list
}

// hereLocked returns the local claims of the parts that have one.
func (sem *Semaphore) hereLocked(parts []*driver.Claim) (list []*line.LocalClaim) {
	for _, part := range parts {
		if lc := sem.line.GetLocked(part.ID); lc != nil {
			list = append(list, lc)
		}
	}
	return list
}

// reach moves the claim to a phase unless the claim has left, and reports whether it has left before.
func (sem *Semaphore) reach(w *wholeClaim, next phase) (left bool) {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if w.phase < partsLeaving {
		w.phase = next
	}
	return w.phase >= partsLeaving && next < partsLeaving
}

// unlist removes a claim from the table when its nodes are gone, or no longer need the entry.
func (sem *Semaphore) unlist(w *wholeClaim) {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if sem.wholes[w.id] == w {
		delete(sem.wholes, w.id)
	}
}

// forgetWholeLocked removes a claim from the table when its last part was forgotten.
func (sem *Semaphore) forgetWholeLocked(id string) {
	whole, _ := znode.CutPart(id)
	w := sem.wholes[whole]
	if w == nil {
		return
	}
	if len(sem.hereLocked(w.partsLocked(&driver.Claim{}))) == 0 {
		delete(sem.wholes, whole)
	}
}

// abandon removes all nodes of a claim that has lost one of them. If the claim has entered again meanwhile, the nodes under
// its parts' ids belong to the new entry, and stay.
func (sem *Semaphore) abandon(w *wholeClaim) {
	sem.mu.Lock()
	if now := sem.wholes[w.id]; now == nil || now == w {
		for _, lc := range sem.hereLocked(w.partsLocked(&driver.Claim{})) {
			sem.line.EndClaimLocked(lc)
		}
	}
	w.phase = partsLeaving
	sem.mu.Unlock()
	sem.unlist(w)
}

// withdrawParts removes a claim that was not let in.
func (sem *Semaphore) withdrawParts(ctx context.Context, w *wholeClaim) error {
	sem.mu.Lock()
	localClaims := sem.hereLocked(w.partsLocked(&driver.Claim{}))
	w.phase = partsLeaving
	sem.mu.Unlock()
	var failed error
	for _, lc := range localClaims {
		failed = errors.Join(failed, sem.line.Withdraw(ctx, lc))
	}
	sem.unlist(w)
	return driver.Afterwards(failed) // the janitor goes on with it
}

// trustedPartsLocked returns the certain rest of a whole claim's lease.
func (sem *Semaphore) trustedPartsLocked(c *driver.Claim, w *wholeClaim) time.Duration {
	ttl := line.Never
	for _, lc := range sem.hereLocked(w.partsLocked(c)) {
		ttl = min(ttl, lc.TrustedLocked())
	}
	if ttl == line.Never {
		return 0
	}
	return ttl
}

// waitsBy returns the id of the local claim on whose watches a claim waits.
func (sem *Semaphore) waitsBy(id string) string {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	w := sem.wholes[id]
	switch {
	case w == nil:
		return id
	case w.phase == partsTaking && len(w.leases) > 0:
		return w.permitLocked(&driver.Claim{}, len(w.leases)-1).ID // the others come first
	}
	return w.lockPartLocked(&driver.Claim{}).ID
}

// wholes returns the ids of the claims to which these local claims belong.
func wholes(ids []string) []string {
	for i, id := range ids {
		ids[i], _ = znode.CutPart(id)
	}
	return ids
}
