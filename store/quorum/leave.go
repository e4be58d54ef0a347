package quorum

import (
	"context"
	"fmt"

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
