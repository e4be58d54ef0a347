package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

const (
	never = time.Duration(1<<63 - 1)

	// Most critical sections are over before a watch on their node would pay.
	watchAfter = 50 * time.Millisecond

	// And most waits of a claim with several others ahead are over before it would pay to ask who holds.
	watchWaiter = 250 * time.Millisecond

	// The pause before another try after a failure, and the bound of a try.
	tendAgain  = 200 * time.Millisecond
	tendWithin = 5 * time.Second
)

// look schedules the janitor no later than at. The caller holds mu.
func (d *Driver) look(at time.Duration) {
	if at < d.next {
		d.next = at
		d.wake()
	}
}

func (d *Driver) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = endangered
}

// alert reports a claim in danger to the engine. The caller holds mu.
func (d *Driver) alert(lc *localClaim) {
	if lc.lease.stands() || errors.Is(lc.lease.gone, driver.ErrSession) {
		d.alerts[lc.claim.ID] = true
		d.wake()
	}
}

// hurt is called when a session has lost its connection, or is over.
func (d *Driver) hurt(s *wire.Session) {
	over := s.Err() != nil
	d.mu.Lock()
	defer d.mu.Unlock()
	if !over && !d.blind {
		d.compareAt = wire.Now()
		d.look(0)
	}
	for _, lc := range d.localClaims {
		if lc.session != s {
			continue
		}
		if over {
			lc.become(claimOver, driver.ErrSession)
		}
		d.alert(lc)
	}
}

// tend is the janitor. Until the driver is closed, it ends leases, removes nodes that must go, watches the nodes of claims,
// and reports claims in danger.
func (d *Driver) tend() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		ids, told := slices.Collect(maps.Keys(d.alerts)), d.told
		clear(d.alerts)
		d.attend()
		if d.next != never {
			timer.Reset(max(0, d.next-wire.Now()))
		}
		d.mu.Unlock()
		if len(ids) > 0 && told != nil {
			told(d.wholes(ids)...)
		}
		select {
		case <-d.ctx.Done():
			return
		case <-d.kick:
		case <-timer.C:
		}
	}
}

// attend does the work that is due, or starts it. The caller holds mu.
func (d *Driver) attend() {
	now := wire.Now()
	d.next = never
	watch := map[*wire.Session][]*localClaim{}
	for _, lc := range d.localClaims {
		d.age(lc, now)
		unwatched := lc.lease.stands() && !lc.listener.own.Stands() && lc.node.name != ""
		switch {
		case lc.asks.tended:
		case lc.lease.mustGo() && now >= lc.asks.tryAt:
			lc.asks.tended = true
			d.life.Go(func() { d.sweep(lc) })
		case lc.lease.mustGo():
			d.next = min(d.next, lc.asks.tryAt)
		case unwatched && now >= lc.listener.ownAt:
			lc.asks.tended = true
			watch[lc.session] = append(watch[lc.session], lc)
		case unwatched:
			d.next = min(d.next, lc.listener.ownAt, lc.lease.ends)
		default:
			d.next = min(d.next, max(lc.lease.ends, now+time.Millisecond))
		}
	}
	for s, list := range watch {
		d.life.Go(func() { d.guard(s, list) })
	}
	d.compareWhenDue(now)
}

// age moves a claim whose lease, or whose session, is over. The caller holds mu.
func (d *Driver) age(lc *localClaim, now time.Duration) {
	switch {
	case d.ctx.Err() != nil:
	case lc.lease.state == claimKept && now >= lc.lease.ends:
		lc.become(claimSpent, driver.ErrGone)
	case d.verdict(lc) != nil && lc.lease.state == claimOver && now >= lc.lease.ends:
		d.forget(lc) // nobody asked
	}
	if lc.session.Err() != nil {
		lc.become(claimOver, driver.ErrSession)
	}
}

// sweep removes the node of a claim that is over. After a final refusal it does not ask again, since only an operator can
// give the right back: the claim is forgotten. Its node is a stray then, whose removal is tried once in compareEvery, and
// not at all once there are no claims. The releasing caller got the error, and waiters are shown the node.
func (d *Driver) sweep(lc *localClaim) {
	ctx, cancel := context.WithTimeout(d.ctx, tendWithin)
	defer cancel()
	_, err := d.remove(ctx, lc)
	d.mu.Lock()
	defer d.mu.Unlock()
	lc.asks.tended = false
	if err == nil || errors.Is(err, driver.ErrSession) || final(err) {
		d.forget(lc)
		return
	}
	lc.asks.tryAt = wire.Now() + tendAgain
	d.look(lc.asks.tryAt)
}

// guard sets watches on the nodes of claims.
func (d *Driver) guard(s *wire.Session, list []*localClaim) {
	ctx, cancel := context.WithTimeout(d.ctx, tendWithin)
	defer cancel()
	calls := make([]*wire.Call, len(list))
	d.mu.Lock()
	for i, lc := range list {
		calls[i] = d.inspect(lc)
	}
	d.mu.Unlock()
	err := d.do(ctx, s, calls...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, lc := range list {
		lc.asks.tended = false
		lc.listener.ownAt = wire.Now() + tendAgain
		if err == nil && (d.inspected(lc, calls[i], false) != nil || lc.listener.demand.fresh()) { // the renewal proves it, or not, and reports it
			d.alerts[lc.claim.ID] = true
			d.wake()
		}
		if lc.lease.state == claimWaiting && lc.listener.head == nil {
			lc.listener.raise() // so that it looks again, and reports who holds
		}
	}
	d.look(wire.Now() + tendAgain)
}

// inspect returns a call that reads a claim's node and watches it from then on. The caller holds mu.
func (d *Driver) inspect(lc *localClaim) *wire.Call {
	w := wire.NewWatch(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !lc.lease.stands() {
			return
		}
		lc.listener.raise()
		lc.listener.ownAt = 0
		d.look(0)
		d.alert(lc)
	})
	return wire.Get(lc.path(), w)
}

// inspected takes the answer to inspect, and returns why the claim is over, or nil. If a missing node may only be unknown
// to the server, since proven is false, it returns [errUnproven]. The caller holds mu.
func (d *Driver) inspected(lc *localClaim, c *wire.Call, proven bool) error {
	switch {
	case !lc.lease.stands():
		c.Unwatch()
		return lc.lease.gone
	case c.Target() != lc.path(): // another node has replaced it meanwhile
		c.Unwatch()
		return nil
	case c.Err != nil && !errors.Is(c.Err, wire.NoNode):
		c.Unwatch()
		return nil // no permission to read it says nothing about the claim
	case c.Err != nil || c.Stat.Czxid != lc.node.czxid || c.Stat.Owner != lc.session.ID():
		c.Unwatch()
		if !proven {
			return errUnproven
		}
		lc.become(claimOver, driver.ErrGone)
		return lc.lease.gone
	}
	held := readData(c.Data)
	if held.Kept > 0 {
		c.Unwatch()
		d.keep(lc, held.Kept)
		return lc.lease.gone
	}
	lc.listener.watches(c, &held, lc.node.version)
	lc.node.version = c.Stat.Version
	return nil
}

// keep notes that a claim has left, and that its node stays for a while. The caller holds mu.
func (d *Driver) keep(lc *localClaim, length time.Duration) {
	if lc.become(claimKept, driver.ErrGone) {
		lc.lease.ends = wire.Now() + length
		d.look(lc.lease.ends)
	}
}
