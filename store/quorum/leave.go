package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// Leave asks all nodes at once. It returns when a majority has let the claim go, since the next one can hold then; the
// requests to the others go on. The nodes have as long for a short lease as for the longest, since no lease runs out
// meanwhile.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	if l.Keep > d.o.MaxTTL {
		const says = "to keep the lock taken for %v is longer than %v, after which a node that forgot votes again"
		return driver.Refused(fmt.Errorf(says, l.Keep, d.o.MaxTTL))
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	claim := *l.Claim
	if claim.Ticket == waitingTicket {
		claim.Ticket = 0
	}
	d.mu.Lock()
	held := d.claims.held[claim.ID]
	d.claims.releaseLocked(claim.ID)
	leave := func(ctx context.Context, n *node) (driver.Place, error) {
		ask := n.store // even if it rests: it may be back, and nobody asks it again to let the claim go
		if d.claims.lacks(held, n.index) {
			ask = n.reachable
		}
		store, err := ask()
		if err != nil {
			return driver.Place{}, err
		}
		err = n.leave(ctx, store, &claim, l.Keep)
		n.reached(err)
		return driver.Place{}, err
	}
	r, err := d.rounds.askLocked(d.timeout(d.o.MaxTTL), claim.ID, nil, d.rule.departed, leave)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	// Of three nodes, one may have let the claim go and one have never had it: then the third decides, however slow it is.
	r.patient = true
	votes, err := r.wait(ctx)
	if err != nil {
		return err
	}
	return d.rule.parting(votes)
}

// leave takes a claim out of a node, by all ids that it has or had there. The error is ErrGone if the node has it by none of
// them. Only an entry by the present id, for which votes were counted, can be kept.
func (n *node) leave(ctx context.Context, store driver.Driver, c *driver.Claim, keep time.Duration) error {
	err := store.Leave(ctx, &driver.Release{Claim: n.ids.as(c, n.index), Keep: keep})
	gone := errors.Is(err, driver.ErrGone)
	left, failed := n.leaveEarlier(ctx, store, c)
	switch {
	case failed != nil && (err == nil || gone):
		return failed
	case gone && left && keep == 0:
		return nil
	}
	return err
}

// leaveEarlier takes a claim out of a node by its earlier ids. It reports whether the node had the claim by one of them. The
// error is about an id by which the node may still have the claim.
func (n *node) leaveEarlier(ctx context.Context, store driver.Driver, c *driver.Claim) (left bool, err error) {
	for _, e := range n.ids.earlier(c, n.index) {
		switch failed := store.Leave(ctx, &driver.Release{Claim: e}); {
		case failed == nil:
			left = true
		case !errors.Is(failed, driver.ErrGone):
			err = failed
		}
	}
	return left, err
}
