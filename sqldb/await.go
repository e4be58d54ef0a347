package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

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

// Changed is [driver.Watcher.Changed]. All calls for one name are one watch, which ends when a call's context does.
func (d *Driver) Changed(ctx context.Context, name string) error {
	seen, begun := d.poll.seen(name)
	if !begun {
		shape, _, err := d.shape(ctx, name)
		if err == nil {
			d.poll.see(name, shape)
		}
		return err
	}
	_, err := d.poll.wait(ctx, &waiter{name: name, shape: seen, told: make(chan outcome, 1)})
	if err != nil {
		d.poll.forget(name)
	}
	return err
}

// shape returns a text that differs whenever claims of a name entered, left, are kept, were told that they hold, or ran
// out, and when the next of them runs out, 0 for never.
func (d *Driver) shape(ctx context.Context, name string) (text string, next int64, err error) {
	if err := d.take(ctx, d.read); err != nil {
		return "", 0, err
	}
	defer d.read.give()
	err = d.patiently(ctx, func() error {
		text, next, err = d.readShape(name)
		return err
	})
	return text, next, err
}

// readShape is [Driver.shape] for who has taken the read session.
func (d *Driver) readShape(name string) (string, int64, error) {
	q, err := readQueue(d.read, name)
	if err != nil {
		return "", 0, err
	}
	q.Expire(d.now())
	var b strings.Builder
	for _, e := range q.Entries {
		fmt.Fprintln(&b, e.Ticket, e.Told, e.Left)
	}
	next, _ := q.Next()
	return b.String(), next, nil
}
