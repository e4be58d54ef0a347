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
	earlier = q.entries.Earlier(c)
	rest := q.after(earlier)
	switch waits, err := q.entries.Admit(c); {
	case err != nil:
		return nil, nil, err
	case rest.foreign && exclusive(c):
		return nil, nil, rest.foreignKey()
	case waits != nil, c.Try && exclusive(c) && rest.barred():
		return nil, outside(q), nil
	}
	return earlier, nil, nil
}

// after returns the queue once the earlier claims have gone.
func (q *queue) after(earlier []*entry) *queue {
	return q.except(func(e *entry) bool { return slices.Contains(earlier, e) })
}
