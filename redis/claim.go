package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// renewAtOnce is how many renewals one pipeline carries, so that a batch does not keep the server from others for long.
const renewAtOnce = 256

// maxText is how long in bytes a claim's texts may be: the queue has 16 bits for their length.
const maxText = 1<<16 - 1

// Enter is one round trip.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if max(len(c.ID), len(c.Client), len(c.Owner), len(c.Record)) > maxText {
		return driver.Place{}, driver.Rejected(fmt.Errorf("the claim's owner or record is longer than %d bytes", maxText))
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
	a, err := d.run(ctx, s, key, c.ID, []string{
		c.ID, c.Client, c.Owner, c.Record,
		number(c.Weight), number(c.Capacity), number(micros(c.TTL)), number(micros(c.Wait)), number(micros(c.Delay)),
		number(c.Ticket), flags,
	})
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
	answers := make([]driver.Renewal, len(cs))
	for i := 0; i < len(cs); i += renewAtOnce {
		end := min(i+renewAtOnce, len(cs))
		d.renew(ctx, cs[i:end], answers[i:end])
	}
	return answers
}

func (d *Driver) renew(ctx context.Context, cs []*driver.Claim, answers []driver.Renewal) {
	fail := func(err error) {
		for i := range answers {
			answers[i].Err = d.explain(ctx, err)
		}
	}
	keys, args, cmds := make([]string, len(cs)), make([][]string, len(cs)), make([]rueidis.Completed, len(cs))
	for i, c := range cs {
		keys[i] = d.key(c.Name)
		args[i] = []string{c.ID, number(micros(c.TTL)), number(micros(c.Wait))}
	}
	if err := d.connected(ctx, keys[0]); err != nil {
		fail(err)
		return
	}
	ctx, release := d.bound(ctx)
	defer release()
	for i := range cs {
		cmds[i] = d.evalsha(d.scripts.renew, keys[i], args[i])
	}
	for i, r := range d.client.DoMulti(ctx, cmds...) {
		if noScript(r) {
			r = d.client.Do(ctx, d.eval(d.scripts.renew, keys[i], args[i]))
		}
		d.note(ctx, r)
		a, err := d.read(ctx, r, keys[i], cs[i].ID)
		answers[i] = driver.Renewal{Err: err}
		if err == nil {
			answers[i].TTL = a.span(0)
		}
	}
}

// Leave is one round trip.
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	c := l.Claim
	key := d.key(c.Name)
	d.mail.forget(d.channel(key, c), c.ID, key)
	_, err := d.run(ctx, d.scripts.leave, key, c.ID, []string{c.ID, number(micros(l.Keep))})
	return err
}

// Break is [driver.Breaker].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (driver.Standing, error) {
	key := d.key(b.Name)
	a, err := d.run(ctx, d.scripts.remove, key, "", []string{"", number(b.Ticket)})
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
