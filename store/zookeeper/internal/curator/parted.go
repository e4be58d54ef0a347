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

// A parted claim is a claim of a semaphore, which has several nodes: its entrance under locks, and one node under leases for
// each permit. Each node has a local claim of its own, by the rules of all local claims. A parted lists these nodes.
//
//	               its entrance          its entrance           it has all permits, and
//	              is not the first         is first             its entrance was there
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
// The claim's ticket is the ticket of its entrance. Claims come to hold in the order of their tickets: the entrance still
// exists after the last permit was made, and until then nobody behind it can get a permit.
type parted struct {
	id, dir, tag string
	size         int // how many nodes it has under leases: one for each permit, or 1 if it takes them all

	phase  phase   // the keeper's mu guards it and the fields below
	ticket int64   // the entrance's
	leases []int64 // the tickets of the nodes under leases that were made
}

// A phase is a step on the way of a parted claim.
type phase int

const (
	partsAsking  phase = iota // its entrance was asked for, and it is not certain yet that the claim may stay
	partsQueued               // its entrance waits
	partsTaking               // its entrance is first, and it asks for its permits
	partsHolding              // it has all permits, and the entrance goes
	partsLeaving              // all its nodes must go
	partsKeeping              // its permits stay for a while
)

func newParted(dir string, c *driver.Claim) *parted {
	p := &parted{id: c.ID, dir: dir, tag: znode.ShapeTag(c), size: int(c.Weight)}
	if c.Weight == driver.All {
		p.size = 1
	}
	return p
}

// partedOf returns the parted claim with an id, or nil.
func (sem *Semaphore) partedOf(id string) *parted {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	return sem.parted[id]
}

// entrance returns the claim under locks. Its lease is the shorter one of the whole claim's leases. The caller holds mu, or
// nobody else has p.
func (p *parted) entrance(c *driver.Claim) *driver.Claim {
	e := *c
	e.ID, e.Ticket, e.Try = znode.PartID(p.id, p.tag), p.ticket, false
	e.Weight, e.Capacity = driver.All, driver.All
	e.Wait = min(c.Wait, c.TTL)
	e.TTL = e.Wait
	return &e
}

// permit returns the claim under leases for one permit. The caller holds mu.
func (p *parted) permit(c *driver.Claim, i int) *driver.Claim {
	e := *c
	e.ID, e.Ticket, e.Try, e.Reclaim = znode.PartID(p.id, fmt.Sprint(i+1, p.tag)), 0, false, false
	if i < len(p.leases) {
		e.Ticket = p.leases[i]
	}
	if c.Weight != driver.All {
		e.Weight = 1
	}
	if p.phase < partsHolding {
		e.Wait = min(c.Wait, c.TTL)
		e.TTL = e.Wait
	}
	return &e
}

// parts returns the claims that may have a node now. The caller holds mu.
func (p *parted) parts(c *driver.Claim) (list []*driver.Claim) {
	for i := range p.leases {
		list = append(list, p.permit(c, i))
	}
	if p.phase != partsHolding {
		list = append(list, p.entrance(c))
	}
	return list
}

// here returns the local claims of the parts that have one. The caller holds mu.
func (sem *Semaphore) here(parts []*driver.Claim) (list []*line.LocalClaim) {
	for _, part := range parts {
		if lc := sem.line.Get(part.ID); lc != nil {
			list = append(list, lc)
		}
	}
	return list
}

// reach moves the claim to a phase unless the claim has left, and reports whether it has left before.
func (sem *Semaphore) reach(p *parted, next phase) (left bool) {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if p.phase < partsLeaving {
		p.phase = next
	}
	return p.phase >= partsLeaving && next < partsLeaving
}

// unlist removes a claim from the table when its nodes are gone, or no longer need the entry.
func (sem *Semaphore) unlist(p *parted) {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if sem.parted[p.id] == p {
		delete(sem.parted, p.id)
	}
}

// forgetWhole removes a claim from the table when its last part was forgotten. The caller holds mu.
func (sem *Semaphore) forgetWhole(id string) {
	whole, _ := znode.CutPart(id)
	p := sem.parted[whole]
	if p == nil {
		return
	}
	if len(sem.here(p.parts(&driver.Claim{}))) == 0 {
		delete(sem.parted, whole)
	}
}

// abandon removes all nodes of a claim that has lost one of them. If the claim has entered again meanwhile, the nodes under
// its parts' ids belong to the new entry, and stay.
func (sem *Semaphore) abandon(p *parted) {
	sem.mu.Lock()
	if now := sem.parted[p.id]; now == nil || now == p {
		for _, lc := range sem.here(p.parts(&driver.Claim{})) {
			sem.line.EndClaim(lc)
		}
	}
	p.phase = partsLeaving
	sem.mu.Unlock()
	sem.unlist(p)
}

// withdrawParts removes a claim that was not let in.
func (sem *Semaphore) withdrawParts(ctx context.Context, p *parted) error {
	sem.mu.Lock()
	localClaims := sem.here(p.parts(&driver.Claim{}))
	p.phase = partsLeaving
	sem.mu.Unlock()
	var failed error
	for _, lc := range localClaims {
		failed = errors.Join(failed, sem.line.Withdraw(ctx, lc))
	}
	sem.unlist(p)
	return driver.Afterwards(failed) // the janitor goes on with it
}

// trustedParts returns the certain rest of a whole claim's lease. The caller holds mu.
func (sem *Semaphore) trustedParts(c *driver.Claim, p *parted) time.Duration {
	ttl := line.Never
	for _, lc := range sem.here(p.parts(c)) {
		ttl = min(ttl, lc.Trusted())
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
	p := sem.parted[id]
	switch {
	case p == nil:
		return id
	case p.phase == partsTaking && len(p.leases) > 0:
		return p.permit(&driver.Claim{}, len(p.leases)-1).ID // the others come first
	}
	return p.entrance(&driver.Claim{}).ID
}

// wholes returns the ids of the claims to which these local claims belong.
func wholes(ids []string) []string {
	for i, id := range ids {
		ids[i], _ = znode.CutPart(id)
	}
	return ids
}
