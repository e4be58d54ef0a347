package consul

import (
	"context"
	"slices"

	"github.com/stilelock/stile/driver"
)

// maxReclaim is how many claims of an earlier run one transaction removes.
const maxReclaim = 16

// precheck reads the queue for a claim that may have to stay out of it, or that takes others out. Nil means that nothing is
// known: other claims enter without looking, and what is in their way shows itself.
func (d *Driver) precheck(ctx context.Context, c *driver.Claim) (*queue, error) {
	if !c.Reclaim && (!c.Try || exclusive(c)) {
		return nil, nil
	}
	return d.look(ctx, c.Name)
}

// admit is the second step of Enter: it tells whether a claim may enter a queue, which is nil if nothing is known of it. It
// returns the claims that an earlier run of its job has there and that must go, or the place of a try that is not let in.
func admit(c *driver.Claim, q *queue) (earlier []*entry, full *driver.Place, err error) {
	if q == nil {
		return nil, nil, nil
	}
	earlier = q.earlierThan(c)
	rest := q.after(earlier)
	if why := rest.misfit(c); why != nil {
		return nil, nil, why
	}
	if c.Try && !rest.hasRoom(c) {
		return nil, outside(q), nil
	}
	return earlier, nil, nil
}

// after returns the queue once the earlier claims have gone.
func (q *queue) after(earlier []*entry) *queue {
	return q.except(func(e *entry) bool { return slices.Contains(earlier, e) })
}

// earlierThan returns the claims that an earlier run of the claim's job has in a queue, but for those that are kept.
func (q *queue) earlierThan(c *driver.Claim) (list []*entry) {
	if !c.Reclaim || c.Owner == "" {
		return nil
	}
	for _, e := range q.entries {
		if e.Owner == c.Owner && e.Client != c.Client && !e.Left {
			list = append(list, e)
		}
	}
	return list
}

// ahead returns the part of a queue before a claim; nobody, if the claim is not there.
func (q *queue) ahead(id string) *queue {
	own := q.find(id)
	return q.except(func(e *entry) bool { return own == nil || e.ticket() >= own.ticket() })
}

// hasRoom reports whether a claim would hold at once.
func (q *queue) hasRoom(c *driver.Claim) bool {
	free := c.Capacity
	for _, e := range q.entries {
		free -= e.Weight
	}
	return free >= c.Weight && !(exclusive(c) && q.barred())
}
