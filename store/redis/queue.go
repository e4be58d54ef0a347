package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/inbox"
	"github.com/stilelock/stile/internal/storeid"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// A Driver keeps locks in Redis. Its methods may be called at once.
type Driver struct {
	conn    *conn.Conn
	prefix  string
	form    queueForm
	scripts *queueScripts
	inboxes *inbox.Set
	breaks  *breakWatch

	untold, unheard []string // commands that are missing for messages to waiters, and for messages about breaks

	renewals *renewals
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
	driver.Adopter
} = (*Driver)(nil)

// newDriver makes a driver over a connection, which it owns from now on.
func newDriver(ctx context.Context, c *conn.Conn, prefix string) *Driver {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	d := &Driver{conn: c, prefix: prefix, form: usualForm, renewals: newRenewals()}
	var asks sync.WaitGroup
	asks.Go(func() { d.listenable(ctx) })
	asks.Go(func() {
		if !c.InPlace(ctx, d.key("")) {
			d.form = shortForm
		}
	})
	asks.Wait()
	d.scripts = queueScriptsOf(c.EvenIfFull(), c.Sharded(), d.form)
	c.Load(ctx, d.scripts.all()...)
	return d
}

// Traits returns the server's promises, and the driver's own.
func (d *Driver) Traits() driver.Traits {
	t := d.conn.Traits()
	t.Ordered, t.Shared, t.Permits, t.Amends, t.Fencing = true, true, true, true, driver.ClockFencing
	d.traitsOfChannels(&t)
	if d.form == shortForm {
		t.Warn("+getrange +setrange +pexpire in the ACL, and no rename-command for them",
			"The server does not let %s use GETRANGE, SETRANGE and PEXPIRE, "+
				"so each change of a queue costs as much as the queue is long.", d.conn.Who())
	}
	return t
}

// Close ends every call. It closes the client too, unless it is the caller's own.
func (d *Driver) Close() error {
	d.conn.Close()
	return nil
}

// key returns the key of a name's queue. Its hash tag is the whole encoded name.
func (d *Driver) key(name string) string {
	return d.prefix + "{" + driver.EncodeName(name) + "}"
}

// maxText is the longest text of a claim in bytes: the queue has 16 bits for its length.
const maxText = 1<<16 - 1

// Enter is one round trip.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	return d.enter(ctx, c, c)
}

// Adopt is [driver.Adopter.Adopt]. It asks for a lease of length 0, and a lease is never made shorter.
func (d *Driver) Adopt(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.Ticket == 0 {
		return driver.Place{}, driver.Refused(errors.New("a claim without a ticket cannot be adopted"))
	}
	if err := d.inboxes.Open(ctx, d.channel(d.key(c.Name), c)); err != nil {
		return driver.Place{}, driver.Unsent(err)
	}
	found := *c
	found.TTL, found.Wait, found.Try, found.Reclaim = 0, 0, false, false
	return d.enter(ctx, c, &found)
}

// enter enters a claim on the terms of another one.
func (d *Driver) enter(ctx context.Context, c, terms *driver.Claim) (driver.Place, error) {
	if max(len(c.ID), len(c.Client), len(c.Owner), len(c.Record)) > maxText {
		return driver.Place{}, driver.Refused(fmt.Errorf("the claim's owner or record is longer than %d bytes", maxText))
	}
	key := d.key(c.Name)
	entry := d.inboxEntry(key, c)
	if !c.Try {
		// The server's message that the claim holds may arrive before the answer to this request. So the claim is expected
		// before the request is sent: a message for an unexpected claim is dropped, and never sent again.
		entry.expect()
	}
	p, err := d.ask(ctx, key, terms)
	if err == nil && p.Holds {
		d.breaks.holds(d.clientChannel(c.Client), c.ID, key, c.TTL)
	}
	switch {
	case c.Try:
	case err != nil || p.Holds:
		entry.forget()
	default:
		entry.listens(c, &p)
	}
	return p, d.breaks.explain(c, key, err)
}

// ask is the server's part of Enter.
func (d *Driver) ask(ctx context.Context, key string, c *driver.Claim) (driver.Place, error) {
	s := d.scripts.enter
	if c.Ticket != 0 {
		s = d.scripts.stay
	}
	args, n := enterArgs(c)
	a, err := d.conn.Run(ctx, s, key, c.ID, args[:n]...)
	var other *driver.CapacityError
	if errors.As(err, &other) {
		other.Want = c.Capacity
	}
	if err != nil {
		return driver.Place{}, err
	}
	return d.placeOf(a, c)
}

// placeOf reads a claim's place from the server's answer.
func (d *Driver) placeOf(a conn.Answer, c *driver.Claim) (driver.Place, error) {
	if ticket, ok := quick(a); ok { // it entered an empty queue
		return driver.Place{Ticket: ticket, Holds: true, TTL: c.TTL.Truncate(time.Microsecond)}, nil
	}
	if len(a) < 4 { // an answer to a Leave of the same claim
		return driver.Place{}, d.conn.Mixed()
	}
	p := driver.Place{
		Ticket: a.Number(0), Holds: a.Number(1) == 1, TTL: a.Span(2), Ahead: int(a.Number(3)), Retry: a.Span(4),
	}
	if blockers := a.Standings(5); len(blockers) > 0 {
		p.Blocker = blockers[0]
	}
	return p, nil
}

// Leave is one round trip.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	c := l.Claim
	key := d.key(c.Name)
	d.inboxEntry(key, c).forget()
	d.breaks.parts(d.clientChannel(c.Client), c.ID, key)
	a, err := d.conn.Run(ctx, d.scripts.leave, key, c.ID, number(micros(l.Keep)), packClaim(c)[claimAfterState:])
	if _, entered := quick(a); entered { // an answer to an Enter of the same claim
		return d.conn.Mixed()
	}
	return err
}

// Break is [driver.Breaker].
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	return remove(ctx, d.conn, d.scripts.remove, d.key(b.Name), b, b.Record)
}

// Identity is [driver.Identifier.Identity]. The id is the value of a key of its own, beside the keys of the names, which
// have braces. It is read each time: a server that was flushed has no id, and neither has a replica that took over before it
// got the id.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	key := d.prefix + "id"
	id, err := d.conn.Keep(ctx, key, storeid.Draw())
	if err != nil {
		return "", err
	}
	return storeid.Check(fmt.Sprintf("key %q", key), id)
}

func micros(t time.Duration) int64 { return t.Microseconds() }
