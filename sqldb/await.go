package sqldb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stilelock/stile/driver"
)

// Await is [driver.Driver.Await].
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	w := &waiter{id: c.ID, ticket: c.Ticket, told: make(chan outcome, 1)}
	if w.ticket == 0 {
		ticket, err := d.find(ctx, c)
		if err != nil || ticket == 0 {
			return driver.Place{}, err
		}
		w.ticket = ticket
	}
	return d.poll.wait(ctx, w)
}

// find returns the ticket of a claim, 0 if it is not there.
func (d *Driver) find(ctx context.Context, c *driver.Claim) (ticket int64, err error) {
	if err := d.take(ctx, d.read); err != nil {
		return 0, err
	}
	defer d.read.give()
	err = d.patiently(ctx, func() error {
		err := d.read.row("find", []any{c.Name, c.ID}, &ticket)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return ticket, err
}
