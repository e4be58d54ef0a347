package quorum

import (
	"fmt"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// On each node a claim has its own id, until the node leaves a Leave unanswered, or the Raise of an attempt that failed.
// When such a request arrives late, it could undo the success of a later attempt. So the claim does not use that id on the
// node again:
//
//	id ──not answered──► id-1 ──not answered──► id-2 …
//
// An Enter by an earlier id may arrive late too. The client counts no vote for an earlier id, so such an entry helps no
// claim to a majority. It only keeps claims out, even the claim itself. So the claim leaves by its earlier ids before it
// enters by the present one, and whenever it leaves. An entry that arrives after that ends with its lease.

// ids has the ids that claims have on the nodes.
type ids struct {
	mu    sync.Mutex           // guards what follows
	drawn map[string]*claimIDs // by the claim's own id
}

// claimIDs are the ids of a claim on the nodes where it does not have its own id.
type claimIDs struct {
	nodes map[int]*nodeIDs
	used  time.Time // when a node was last asked for the claim
}

// nodeIDs are the ids of a claim on one node.
type nodeIDs struct {
	drawn   int      // how many ids were drawn after the claim's own
	earlier []string // by which the claim leaves too, the latest last
}

// mostEarlier is how many earlier ids a claim leaves by. On a node that does not answer, each attempt draws another id. An
// entry by a still earlier id ends with its lease.
const mostEarlier = 8

// draw gives a claim another id on a node, since a request by the present one was not answered.
func (t *ids) draw(id string, i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.drawn[id]
	if c == nil {
		c = &claimIDs{nodes: map[int]*nodeIDs{}}
		t.drawn[id] = c
	}
	n := c.nodes[i]
	if n == nil {
		n = &nodeIDs{}
		c.nodes[i] = n
	}
	c.used = time.Now()
	n.earlier = append(n.earlier, n.present(id))
	n.earlier = n.earlier[max(0, len(n.earlier)-mostEarlier):]
	n.drawn++
}

func (n *nodeIDs) present(id string) string {
	if n.drawn == 0 {
		return id
	}
	return fmt.Sprintf("%s-%d", id, n.drawn)
}

// as returns the claim with the id by which a node knows it.
func (t *ids) as(c *driver.Claim, i int) *driver.Claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.drawn[c.ID]
	if of == nil {
		return c
	}
	of.used = time.Now()
	n := of.nodes[i]
	if n == nil {
		return c
	}
	own := *c
	own.ID = n.present(c.ID)
	return &own
}

// earlier returns the claim with each earlier id by which a node may know it.
func (t *ids) earlier(c *driver.Claim, i int) (list []*driver.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.drawn[c.ID]
	if of == nil || of.nodes[i] == nil {
		return nil
	}
	for _, id := range of.nodes[i].earlier {
		own := *c
		own.ID, own.Ticket = id, 0
		list = append(list, &own)
	}
	return list
}

// replace sets a claim's ids on the nodes where it does not have its own id.
func (t *ids) replace(id string, of *claimIDs) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.drawn, id)
	if len(of.nodes) > 0 {
		t.drawn[id] = of
	}
}

// forget forgets the drawn ids of claims for which no node was asked since then, unless they hold.
func (t *ids) forget(since time.Time, holds func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, of := range t.drawn {
		if !holds(id) && of.used.Before(since) {
			delete(t.drawn, id)
		}
	}
}
