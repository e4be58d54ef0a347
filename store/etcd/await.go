package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// askAgain is how long Await waits for a claim that no watch can report about.
const askAgain = 100 * time.Millisecond

// Await sends no request: a watch reports the deleted keys, and the claim knows which keys are ahead of it.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d.mu.Lock()
	if d.ctx.Err() != nil {
		d.mu.Unlock()
		return driver.Place{}, driver.ErrClosed
	}
	k := d.claims.known[c.ID]
	switch {
	case k == nil || !k.entered() || k.state == claimFound:
		d.mu.Unlock()
		return driver.Place{}, d.pause(ctx)
	case k.knows == deaf:
		d.mu.Unlock()
		return driver.Place{}, nil // Enter reads the queue again
	case k.knows == informed:
		if w := d.watches.joinLocked(k); w.heard > k.seen {
			// The watch reported events after this claim had read the queue, and before it subscribed.
			d.watches.unsubscribeLocked(k)
			d.mu.Unlock()
			return driver.Place{}, nil
		}
	}
	turn := k.turn
	p, settled := k.ready(c)
	d.mu.Unlock()
	if settled {
		return p, nil
	}
	select {
	case <-turn:
		d.mu.Lock()
		defer d.mu.Unlock()
		p, _ := k.ready(c)
		return p, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-d.ctx.Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// Adopt is [driver.Adopter.Adopt]. It reads the claim's place as Enter does, twice for a claim that the driver does not know, and
// keeps no lease alive. How much is left of another driver's lease it does not learn.
func (d *Driver) Adopt(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.Ticket == 0 {
		return driver.Place{}, driver.Refused(errors.New("a claim without a ticket cannot be adopted"))
	}
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return driver.Place{}, err
	}
	defer done()
	p, err := d.see(bounded, c)
	return p, d.wire.explain(ctx, err)
}

// see reads the place of a claim that is in its queue, and remembers the claim. A claim with a lock-delay does not hold yet if it
// comes first: see ready.
func (d *Driver) see(ctx context.Context, c *driver.Claim) (p driver.Place, err error) {
	a := d.newAttempt(c)
	defer d.giveBack(a)
	if a.k, err = d.ours(c); err == nil && a.k == nil {
		a.k, err = d.adopt(ctx, c)
	}
	if err != nil {
		return p, err
	}
	d.sit(a)
	if err := d.readPlace(ctx, a); err != nil {
		return p, err
	}
	d.meet(a)
	at := a.own(a.v)
	if at < 0 {
		return p, driver.ErrGone // its next Enter finds out what became of it
	}
	p = a.v.q.Place(at)
	p.TTL = max(0, d.left(a.k, c, a.began))
	if p.Holds && c.Delay > 0 {
		p.Holds = false
		return p, nil
	}
	d.watches.noteQueue(c, a.k, a.v.q, at, !a.v.head || at == 0, a.v.seen, p.Holds)
	if a.v.head {
		p.Ahead = d.watches.countAhead(a.k, a.v.q[:at])
	}
	return p, nil
}

// ready returns the answer of Await by the events so far; settled is false while the claim has to wait on. A place that
// does not hold means that the caller must enter again. A claim with a lock-delay gets such a place though it holds: only
// Enter attaches its key to the longer lease.
func (k *localClaim) ready(c *driver.Claim) (p driver.Place, settled bool) {
	switch {
	case k.knows != hearing || k.state == claimDeleted || k.state == claimFound:
		return p, true // a claim that was only found does not know the keys ahead of it
	case k.over > 0 || k.state == claimLeaving:
		return p, false
	case c.Delay > 0:
		return p, true
	}
	if k.becomeLocked(claimHolding); k.state != claimHolding {
		return p, true
	}
	return driver.Place{Ticket: k.created, Holds: true}, true
}

// pause waits for askAgain. Its claims entered by another driver, or are not known to have entered.
func (d *Driver) pause(ctx context.Context) error {
	moment := time.NewTimer(askAgain)
	defer moment.Stop()
	select {
	case <-moment.C:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-d.ctx.Done():
		return driver.ErrClosed
	}
}
