package consul

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// amendAll amends the claims that have an Amend, after their renewal.
func (d *Driver) amendAll(ctx context.Context, cs []*driver.Claim, answers []driver.Renewal) {
	for i, c := range cs {
		if c.Amend == nil || answers[i].Err != nil {
			continue
		}
		if err := d.amend(ctx, c); err != nil {
			answers[i] = driver.Renewal{Err: err}
		}
	}
}

// amend changes a claim in its place.
func (d *Driver) amend(ctx context.Context, c *driver.Claim) error {
	if a := c.Amend; c.Delay > 0 && a.Weight != 0 && a.Weight < c.Weight {
		return errSharedDelay
	}
	lc := d.claims.of(c)
	if lc == nil {
		return driver.ErrGone
	}
	m, _, err := d.pursue(ctx, seatOf(c, lc), lc, nil, amends)
	if err != nil {
		return uncertain(err)
	}
	if m.exclusive != nil {
		d.claims.setExclusive(lc, *m.exclusive)
	}
	switch m.end {
	case endGone:
		d.claims.finish(lc, claimLost)
		return driver.ErrGone
	case endRefused:
		return m.why
	}
	// An amendment whose answer was lost finds another index from now on. Renewals check the lock's key again.
	d.claims.become(lc, claimHolding)
	return nil
}

// uncertain marks the error of a request that came after the session was renewed: only a refusal means that nothing
// changed.
func uncertain(err error) error {
	if driver.OutcomeOf(err) == driver.OutcomeRefused {
		return err
	}
	return driver.Unknown(err)
}
