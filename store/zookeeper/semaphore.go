package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// passWithin is how long a try waits while the claims ahead of it under locks take free permits.
const passWithin = time.Second

// enterSemaphore takes five round trips for a free permit: make the entrance, read the queue, make the permit, check that
// the entrance still exists, and remove it.
func (d *Driver) enterSemaphore(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	p := d.partedOf(c.ID)
	if p == nil && c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	if p != nil {
		place, err := d.advance(ctx, c, p)
		if c.Ticket != 0 || !errors.Is(err, driver.ErrGone) || d.partedOf(c.ID) != nil {
			return place, err
		}
	}
	p = newParted(dir, c)
	d.mu.Lock()
	d.parted[c.ID] = p
	d.mu.Unlock()
	return d.advance(ctx, c, p)
}

// reclaimPermits removes the permits of earlier runs. The claim's entrance exists, and the entrances of earlier runs ahead
// of it were removed when it was made. So no earlier run gets a permit after this.
func (d *Driver) reclaimPermits(ctx context.Context, c *driver.Claim, p *parted) error {
	if !reclaims(c) {
		return nil
	}
	for range attempts {
		s, err := d.live()
		if err != nil {
			return err
		}
		if err = d.reclaim(ctx, s, p.dir+leasesDir, c); !errors.Is(err, driver.ErrSession) {
			return err
		}
	}
	return driver.Unreachable(driver.ErrSession)
}

// advance moves a claim as far as possible.
func (d *Driver) advance(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	d.mu.Lock()
	phase, entrance := p.phase, p.entrance(c)
	d.mu.Unlock()
	switch {
	case phase >= partsLeaving:
		return driver.Place{}, driver.ErrGone
	case phase == partsHolding:
		return d.take(ctx, c, p)
	}
	e, err := d.enter(ctx, p.dir+locksDir, entrance)
	if err != nil {
		return driver.Place{}, d.failed(c, p, err, phase != partsAsking)
	}
	d.mu.Lock()
	p.ticket = e.Ticket
	d.parted[p.id] = p // it may have been forgotten before its entrance was asked for again
	d.mu.Unlock()
	if phase == partsAsking {
		if err := d.reclaimPermits(ctx, c, p); err != nil {
			return driver.Place{}, d.failed(c, p, err, true)
		}
		in, place, err := d.admit(ctx, c, p, &e)
		if err != nil || !in {
			return place, err
		}
	}
	if !e.Holds {
		return d.queued(ctx, c, p)
	}
	if d.reach(p, partsTaking) {
		return driver.Place{}, driver.ErrGone
	}
	return d.take(ctx, c, p)
}

// failed turns the error of a part into the error of the whole claim.
func (d *Driver) failed(c *driver.Claim, p *parted, err error, entered bool) error {
	switch {
	case errors.Is(err, driver.ErrGone):
		d.abandon(p)
		return err
	case !entered:
		if driver.NotApplied(err) {
			d.unlist(p)
		}
		return err
	case c.Ticket == 0 && driver.OutcomeOf(err) == driver.OutcomeRefused: // so nothing was done
		d.abandon(p)
		return err
	}
	return driver.Afterwards(err)
}

// admit judges a claim whose entrance exists by the claims ahead of it, and reports whether it may stay.
func (d *Driver) admit(ctx context.Context, c *driver.Claim, p *parted, e *driver.Place) (bool, driver.Place, error) {
	l, err := d.lineOf(ctx, p.dir)
	if err != nil {
		return false, driver.Place{}, driver.Afterwards(err)
	}
	if have := l.capacity(); have != c.Capacity && have != 0 {
		if err := d.withdrawParts(ctx, p); err != nil {
			return false, driver.Place{}, err
		}
		return false, driver.Place{}, &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	if own := l.find(p.id); c.Try && own >= l.holding() {
		return d.turnAway(ctx, p, l, own)
	}
	if c.Try && !e.Holds {
		if err := d.pass(ctx, c, p, e); err != nil {
			return false, driver.Place{}, err
		}
		if !e.Holds {
			return d.turnAway(ctx, p, l, l.find(p.id))
		}
	}
	return !d.reach(p, partsQueued), driver.Place{}, nil
}

// turnAway withdraws a try, and returns its place behind the others.
func (d *Driver) turnAway(ctx context.Context, p *parted, l line, own int) (bool, driver.Place, error) {
	if err := d.withdrawParts(ctx, p); err != nil {
		return false, driver.Place{}, err
	}
	place, err := d.placeIn(ctx, p.dir, l, own)
	return false, place, err
}

// pass waits a while for the claims ahead of a try, if they take free permits and leave one.
func (d *Driver) pass(ctx context.Context, c *driver.Claim, p *parted, e *driver.Place) error {
	d.mu.Lock()
	entrance := p.entrance(c)
	d.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, passWithin)
	defer cancel()
	for !e.Holds {
		err := d.await(within, entrance.ID)
		if err == nil {
			*e, err = d.enter(within, p.dir+locksDir, entrance)
		}
		if within.Err() != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return d.failed(c, p, err, true)
		}
	}
	return nil
}

// take asks for the permits of a claim whose entrance is first, or finds the permits of a claim that holds.
func (d *Driver) take(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	holds, err := d.takeNodes(ctx, c, p)
	switch {
	case err != nil:
		return driver.Place{}, err
	case !holds && c.Try && c.Ticket == 0:
		return d.tryFailed(ctx, p)
	case !holds:
		return d.queued(ctx, c, p)
	}
	ahead, err := d.settleIn(ctx, c, p)
	if err != nil {
		return driver.Place{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver.Place{Ticket: p.ticket, Holds: true, TTL: d.trustedParts(c, p), Ahead: ahead}, nil
}

// takeNodes makes or finds the node of each permit, and reports whether there is room for all.
func (d *Driver) takeNodes(ctx context.Context, c *driver.Claim, p *parted) (bool, error) {
	holds := true
	for i := range p.size {
		d.mu.Lock()
		if i == len(p.leases) {
			p.leases = append(p.leases, 0)
		}
		permit := p.permit(c, i)
		d.mu.Unlock()
		place, err := d.enter(ctx, p.dir+leasesDir, permit)
		if err != nil {
			return false, d.failed(c, p, err, true)
		}
		d.mu.Lock()
		p.leases[i] = place.Ticket
		left := p.phase >= partsLeaving
		d.mu.Unlock()
		if left {
			d.abandon(p) // it left meanwhile, without seeing this part
			return false, driver.ErrGone
		}
		holds = holds && place.Holds
	}
	return holds, nil
}

// tryFailed withdraws a try that found room in the queue but not under leases, where another client did not respect the
// queue.
func (d *Driver) tryFailed(ctx context.Context, p *parted) (driver.Place, error) {
	l, err := d.lineOf(ctx, p.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	_, place, err := d.turnAway(ctx, p, l, l.find(p.id))
	return place, err
}

// settleIn makes a claim hold that has all its permits, if its entrance still exists, and removes the entrance. It returns
// how many claims have earlier permits.
func (d *Driver) settleIn(ctx context.Context, c *driver.Claim, p *parted) (int, error) {
	d.mu.Lock()
	entrance := d.localClaims[p.entrance(c).ID]
	permit := d.localClaims[p.permit(c, 0).ID]
	held := p.phase == partsHolding
	d.mu.Unlock()
	if permit == nil || !held && (entrance == nil || entrance.session != permit.session) {
		return 0, d.failed(c, p, driver.ErrGone, true)
	}
	leases := wire.List(p.dir+leasesDir, nil)
	calls := []*wire.Call{leases}
	if !held {
		calls = append(calls, wire.Exists(entrance.dir+"/"+d.nameOf(entrance), nil))
	}
	if err := d.do(ctx, permit.session, calls...); err != nil {
		return 0, d.failed(c, p, err, true)
	}
	if !held {
		if errors.Is(calls[1].Err, wire.NoNode) {
			return 0, d.failed(c, p, driver.ErrGone, true)
		}
		if d.reach(p, partsHolding) {
			return 0, driver.ErrGone
		}
		_ = d.withdraw(ctx, entrance) // the janitor goes on
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, part := range p.parts(c) {
		if lc := d.localClaims[part.ID]; lc != nil && lc.lease.stands() {
			d.prolong(lc, c.TTL)
		}
	}
	l, _ := newLine(nil, leases.Children)
	return max(0, l.find(p.id)), nil
}

// queued returns the place of a claim that waits.
func (d *Driver) queued(ctx context.Context, c *driver.Claim, p *parted) (driver.Place, error) {
	l, err := d.lineOf(ctx, p.dir)
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	place, err := d.placeIn(ctx, p.dir, l, l.find(p.id))
	if err != nil {
		return driver.Place{}, driver.Afterwards(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	place.Ticket, place.TTL = p.ticket, d.trustedParts(c, p)
	return place, nil
}
