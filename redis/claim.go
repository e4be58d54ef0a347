package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/stilelock/stile/driver"
)

// maxText is how long in bytes a claim's texts may be: the queue has 16 bits for their length.
const maxText = 1<<16 - 1

// Enter is one round trip.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if max(len(c.ID), len(c.Client), len(c.Owner), len(c.Record)) > maxText {
		return driver.Place{}, driver.Refused(fmt.Errorf("the claim's owner or record is longer than %d bytes", maxText))
	}
	s := d.scripts.enter
	if c.Ticket != 0 {
		s = d.scripts.stay
	}
	flags := ""
	if c.Try {
		flags = "t"
	}
	if c.Reclaim {
		flags += "r"
	}
	key := d.key(c.Name)
	if !c.Try {
		// From here on the claim may be told that it holds, even before the answer is here.
		d.mail.expect(d.channel(key, c), c.ID, key)
	}
	a, err := d.run(ctx, s, request{key, c.ID, []string{
		c.ID, c.Client, c.Owner, c.Record,
		number(c.Weight), number(c.Capacity), number(micros(c.TTL)), number(micros(c.Wait)), number(micros(c.Delay)),
		number(c.Ticket), flags,
	}})
	var other *driver.CapacityError
	if errors.As(err, &other) {
		other.Want = c.Capacity
	}
	p := driver.Place{}
	if err == nil {
		p = driver.Place{
			Ticket: a.number(0), Holds: a.number(1) == 1, TTL: a.span(2), Ahead: int(a.number(3)), Retry: a.span(4),
		}
		if blockers := a.standings(5); len(blockers) > 0 {
			p.Blocker = blockers[0]
		}
	}
	if !c.Try && (err != nil || p.Holds) {
		d.mail.forget(d.channel(key, c), c.ID, key)
	}
	return p, err
}

// Renew sends all renewals in few pipelines.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	requests := make([]request, len(cs))
	for i, c := range cs {
		requests[i] = request{d.key(c.Name), c.ID, []string{c.ID, number(micros(c.TTL)), number(micros(c.Wait))}}
	}
	renewals := make([]driver.Renewal, len(cs))
	d.runAll(ctx, d.scripts.renew, requests, func(i int, a answer, err error) {
		renewals[i] = driver.Renewal{TTL: a.span(0), Err: err}
	})
	return renewals
}

// Leave is one round trip.
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	c := l.Claim
	key := d.key(c.Name)
	d.mail.forget(d.channel(key, c), c.ID, key)
	_, err := d.run(ctx, d.scripts.leave, request{key, c.ID, []string{c.ID, number(micros(l.Keep))}})
	return err
}

// Break is [driver.Breaker].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (driver.Standing, error) {
	key := d.key(b.Name)
	a, err := d.run(ctx, d.scripts.remove, request{key, "", []string{"", number(b.Ticket)}})
	if err != nil {
		return driver.Standing{}, err
	}
	list := a.standings(0)
	if len(list) != 1 {
		return driver.Standing{}, errors.New("redis answered without the claim that was removed")
	}
	return list[0], nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
