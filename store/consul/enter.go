package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// maxDelay is the longest lock-delay that Consul keeps.
	maxDelay = time.Minute

	// delayRetry is how often a claim at the head asks again while a lock-delay is in its way. Consul tells no end of it.
	delayRetry = 250 * time.Millisecond

	// rounds is how often a place is looked at again because others were quicker.
	rounds = 8
)

// Enter of a free lock is one transaction. Where the lock is taken, it is another. Its four steps stand in files of their
// names: lookup, admit, apply and judge.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	switch {
	case c.Delay > maxDelay:
		err := fmt.Errorf("the lock-delay is %v; consul keeps %v at most", c.Delay, maxDelay)
		return driver.Place{}, driver.Refused(err)
	case c.Delay > 0 && !exclusive(c):
		err := fmt.Errorf("%w: consul keeps a lock-delay for exclusive claims alone", driver.ErrUnsupported)
		return driver.Place{}, err
	}
	lc, q, err := d.lookup(ctx, c)
	switch {
	case err != nil:
		return driver.Place{}, err
	case lc == nil:
		return d.enterNew(ctx, c)
	}
	return d.judge(ctx, c, lc, q)
}

// enterNew puts a claim at the tail of its queue, unless it is not let in. Nothing is known of the queue before the first
// attempt, mostly: then the lock may well be free.
func (d *Driver) enterNew(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	q, err := d.precheck(ctx, c)
	if err != nil {
		return driver.Place{}, driver.NotYet(err)
	}
	for range rounds {
		if e := q.find(c.ID); e != nil { // by another client, or by a request of ours whose answer was lost
			p, err := d.meet(ctx, c, q)
			return p, driver.Afterwards(err)
		}
		earlier, full, err := admit(c, q)
		if err != nil {
			return driver.Place{}, err
		}
		if full != nil {
			return *full, nil
		}
		lc, after, bad, err := d.apply(ctx, c, q, earlier)
		switch {
		case err != nil:
			return driver.Place{}, err
		case bad == nil:
			p, err := d.judge(ctx, c, lc, after)
			return p, driver.Afterwards(err)
		}
		if q, err = d.look(ctx, c.Name); err != nil {
			return driver.Place{}, driver.NotYet(err)
		}
		if c.Try && bad.delayed() {
			return driver.Place{Ahead: len(q.entries)}, nil
		}
	}
	return driver.Place{}, driver.Refused(driver.Unreachable(errors.New("other clients were quicker each time")))
}

// meet judges a claim that stands in a queue by another client.
func (d *Driver) meet(ctx context.Context, c *driver.Claim, q *queue) (driver.Place, error) {
	lc, err := d.visitor(ctx, c, q)
	if err != nil {
		return driver.Place{}, err
	}
	return d.judge(ctx, c, lc, q)
}
