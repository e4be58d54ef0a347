package quorum

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A client knows a claim that another process entered by the claim's own id and its ticket. A node may have it by an id that
// the other process has drawn (ids.go). So the client asks all nodes for their entries of the claim. Only the attempt that
// won has this ticket: the entries by ids of other attempts have other tickets. If a node does not show the claim with its
// ticket, the client enters it there again, by an id that nobody has used, since a late request may be about any other id.

// freshIDs is above the number of ids that a process draws for one claim.
const freshIDs = 1 << 20

// A resumption is a claim that is being taken up.
type resumption struct {
	d     *Driver
	claim *driver.Claim
	round *round

	mu    sync.Mutex      // guards what follows
	found []*driver.Claim // by node, as it stands there
}

// strangeLocked reports whether this client's and the caller's knowledge of a claim differ. If the caller does not
// know its record, it has taken the claim up, and has not changed it since.
func (t *claims) strangeLocked(c *driver.Claim) bool {
	h := t.held[c.ID]
	if h == nil {
		return c.Ticket > waitingTicket || c.Ticket == 0 && c.Amend != nil // in the second case no node has the claim
	}
	is, _ := CutVersion(h.record)
	return c.Amend == nil && c.Record != is && (c.Record != "" || h.own)
}

// resume takes up the claims that another process entered, or had in between. The errors are by claim, or nil if there are
// no such claims.
func (d *Driver) resume(ctx context.Context, cs []*driver.Claim) []error {
	if !d.rule.ranked {
		return nil
	}
	var errs []error
	all := map[int]*resumption{}
	d.mu.Lock()
	for i, c := range cs {
		if !d.claims.strangeLocked(c) {
			continue
		}
		if errs == nil {
			errs = make([]error, len(cs))
		}
		d.claims.releaseLocked(c.ID)
		all[i], errs[i] = d.findLocked(c)
	}
	d.mu.Unlock()
	for i, r := range all {
		if errs[i] == nil {
			errs[i] = r.finish(ctx)
		}
	}
	return errs
}

// findLocked asks all nodes for their entries of a claim, after the earlier requests about it.
func (d *Driver) findLocked(c *driver.Claim) (*resumption, error) {
	r := &resumption{d: d, claim: c, found: make([]*driver.Claim, len(d.nodes.list))}
	find := func(ctx context.Context, n *node) (driver.Place, error) {
		store, err := n.store()
		if err != nil {
			return driver.Place{}, err
		}
		m := store.(Member)
		found, err := askMember(ctx, n, m, func() (*driver.Claim, error) { return m.Find(ctx, c) })
		if err == nil {
			r.mu.Lock()
			r.found[n.index] = found
			r.mu.Unlock()
		}
		return driver.Place{}, err
	}
	var err error
	r.round, err = d.rounds.askLocked(d.timeout(c.TTL), c.ID, nil, never, find)
	if err == nil {
		d.claims.resuming[c.ID] = r
	}
	return r, err
}

// finish waits for the answers. The claim then holds here if a majority shows it, unless it has left meanwhile.
func (r *resumption) finish(ctx context.Context) error {
	d := r.d
	votes, err := r.round.wait(ctx)
	r.mu.Lock()
	found := append([]*driver.Claim(nil), r.found...)
	r.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claims.resuming[r.claim.ID] != r {
		return driver.ErrGone
	}
	delete(d.claims.resuming, r.claim.ID)
	if err != nil {
		return err
	}
	stands := 0
	for _, c := range found {
		if c != nil {
			stands++
		}
	}
	if err := d.rule.takenUp(votes, stands); err != nil {
		return err
	}
	d.claims.takeUpLocked(r.claim, found)
	return nil
}

// takeUpLocked notes that this client holds a claim that stands on a majority of the nodes.
func (t *claims) takeUpLocked(c *driver.Claim, found []*driver.Claim) {
	claim := *c
	claim.Wait, claim.Record = c.TTL, ""
	of := &claimIDs{nodes: map[int]*nodeIDs{}, used: time.Now()}
	for i, f := range found {
		switch {
		case f == nil:
			of.nodes[i] = &nodeIDs{drawn: freshIDs + rand.IntN(1<<30), earlier: []string{c.ID}}
			continue
		case f.ID != c.ID:
			of.nodes[i] = &nodeIDs{drawn: numberOf(f.ID, c.ID), earlier: []string{c.ID}}
		}
		if claim.Record == "" || later(f.Record, claim.Record) {
			claim.Client, claim.Owner, claim.Record = f.Client, f.Owner, f.Record
		}
	}
	t.ids.replace(c.ID, of)
	t.holdLocked(&claim, c.Ticket)
}

// numberOf returns the number of an id that was drawn for a claim.
func numberOf(id, own string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, own+"-"))
	return n
}
