package quorum

import (
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// A lateLeave is a Leave that was never answered, so it may arrive yet. The claim gets another id on that node then, or
// the late Leave would take out what the claim has won in a later round.
type lateLeave struct {
	number int
	used   time.Time // when the node was last asked for the claim by its other id
}

// noteLateLeave notes that a Leave was not answered.
func (d *Driver) noteLateLeave(id string, i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lateLeaves[nodeQueue{id, i}] = lateLeave{d.lateLeaves[nodeQueue{id, i}].number + 1, time.Now()}
}

// as returns the claim as a node knows it.
func (d *Driver) as(c *driver.Claim, i int) *driver.Claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := nodeQueue{c.ID, i}
	l, late := d.lateLeaves[q]
	if !late {
		return c
	}
	l.used = time.Now()
	d.lateLeaves[q] = l
	return l.claim(c)
}

func (l *lateLeave) claim(c *driver.Claim) *driver.Claim {
	other := *c
	other.ID = fmt.Sprintf("%s-%d", c.ID, l.number)
	return &other
}

// forgetLateLeaves forgets those of claims that are over. A claim that waits asks again while its lease lasts, so one that
// has not asked for longer than any lease is over, and nobody asks for its first id again, however late the Leave arrives.
func (d *Driver) forgetLateLeaves() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for q, l := range d.lateLeaves {
		if h := d.held[q.id]; h == nil && time.Since(l.used) > 2*d.o.MaxTTL {
			delete(d.lateLeaves, q)
		}
	}
}
