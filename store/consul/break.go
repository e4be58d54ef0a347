package consul

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
)

// Break is [driver.Breaker]. It leaves the lock to the next in the queue without a lock-delay.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	for range rounds {
		q, err := d.look(ctx, b.Name)
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		i := slices.IndexFunc(q.entries, func(e *entry) bool { return b.Ticket == 0 || e.ticket() == b.Ticket })
		if i < 0 {
			return driver.ClaimInfo{}, driver.ErrGone
		}
		// The transaction that deletes also reads the queue, since the claims ahead may have left meanwhile.
		e := q.entries[i]
		pairs, bad, err := d.agent.transact(ctx, append([]op{{Verb: tree, Key: q.folder}}, evict(q, []*entry{e})...))
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		if bad == nil {
			now := parse(b.Name, q.folder, pairs)
			at := slices.IndexFunc(now.entries, func(n *entry) bool { return n.id == e.id })
			if at < 0 { // somebody has overwritten the claim by hand
				return q.standing(i), nil
			}
			return now.standing(at), nil
		}
	}
	return driver.ClaimInfo{}, driver.Unreachable(errors.New("the queue changed each time while a claim was removed"))
}
