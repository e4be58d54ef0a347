package quorum

import (
	"context"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// Leave asks all nodes at once. It returns when a majority has let the claim go, since the next one can hold then; the
// others go on to. They have as long for a short lease as for the longest, since no lease runs out meanwhile.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	if l.Keep > d.o.MaxTTL {
		return driver.Refused(fmt.Errorf("to keep the lock taken for %v is longer than %v, after which a node that forgot votes again", l.Keep, d.o.MaxTTL))
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
	r, err := d.rounds.askLocked(d.timeout(d.o.MaxTTL), claim.ID, nil, d.rule.departed, func(ctx context.Context, n *node) (driver.Place, error) {
		ask := n.store // also one that rests: it may be back, and nobody asks it again to let the claim go
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
	})
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
