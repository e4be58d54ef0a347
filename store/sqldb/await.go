package sqldb

import (
	"context"
	"slices"

	"github.com/stilelock/stile/driver"
)

// Await is [driver.Driver.Await].
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	w := &waiter{Waiting: Waiting{Name: c.Name, ID: c.ID, Ticket: c.Ticket}, client: c.Client, told: make(chan outcome, 1)}
	if w.Ticket == 0 {
		ticket, err := d.find(ctx, c)
		if err != nil || ticket == 0 {
			return driver.Place{}, err
		}
		w.Ticket = ticket
	}
	p, err := d.poll.wait(ctx, w)
	if err == nil && p.Holds {
		d.Holds(c, p.Ticket)
	}
	return p, err
}

// find returns the ticket of a claim; 0 if the claim is not in its queue.
func (d *Driver) find(ctx context.Context, c *driver.Claim) (ticket int64, err error) {
	queues, _, err := d.read(ctx, &driver.Query{Name: c.Name})
	for _, n := range queues {
		if i := slices.IndexFunc(n.Queue.Entries, func(e driver.Entry) bool { return e.ID == c.ID }); i >= 0 {
			ticket = n.Queue.Entries[i].Ticket
		}
	}
	return ticket, err
}
