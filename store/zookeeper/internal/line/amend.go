package line

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// renewAmending renews claims, and amends the claims that ask for it.
func (k *Keeper) renewAmending(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	plain := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		claim := *c
		claim.Amend = nil
		plain[i] = &claim
	}
	answers := k.RenewAll(ctx, plain)
	for i, c := range cs {
		if c.Amend == nil || answers[i].Err != nil {
			continue
		}
		if err := k.amend(ctx, c); err != nil {
			answers[i] = driver.Renewal{Err: err}
		}
	}
	return answers
}

// amend changes a claim without moving it in the queue. The data of the node have the record. The name of the node has the
// weight, so for another weight, another node replaces it.
func (k *Keeper) amend(ctx context.Context, c *driver.Claim) error {
	lc := k.LocalClaimOf(c.ID)
	if lc == nil {
		return driver.ErrGone
	}
	m, err := k.pursue(ctx, lc, amends(c))
	switch m.verb {
	case endAbsent, endKept:
		return driver.ErrGone
	case endRefused:
		return err
	}
	return driver.Unknown(err) // the lease was renewed
}
