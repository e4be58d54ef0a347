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

	// Most sections are over before their node would be worth a watch.
	watchAfter = 50 * time.Millisecond

	// And most waits, of a claim that has several before it, before it would be worth while to ask who holds.
	watchWaiter = 250 * time.Millisecond

	// How soon what failed is tried again, and how long a try may take.
	tendAgain  = 200 * time.Millisecond
	tendWithin = 5 * time.Second
)

// look has the janitor look at the local claims at a time, or a little before. The caller holds mu.
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

// alert has the engine told that a claim is in danger. The caller holds mu.
func (d *Driver) alert(lc *localClaim) {
	if lc.stands() || errors.Is(lc.gone, driver.ErrSession) {
		d.alerts[lc.claim.ID] = true
		d.wake()
	}
}

// hurt is told that a session lost its connection, or is over.
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

// tend sees to the local claims until the driver is closed: it ends leases, removes nodes that must go, watches the nodes of
// claims, and tells which are in danger.
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

// attend does what is due, or has it done. The caller holds mu.
func (d *Driver) attend() {
	now := wire.Now()
	d.next = never
	watch := map[*wire.Session][]*localClaim{}
	for _, lc := range d.localClaims {
		d.age(lc, now)
		unwatched := lc.stands() && !lc.own.Stands() && lc.name != ""
		switch {
		case lc.tended:
		case lc.mustGo() && now >= lc.tryAt:
			lc.tended = true
			d.life.Go(func() { d.sweep(lc) })
		case lc.mustGo():
			d.next = min(d.next, lc.tryAt)
		case unwatched && now >= lc.watchAt:
			lc.tended = true
			watch[lc.session] = append(watch[lc.session], lc)
		case unwatched:
			d.next = min(d.next, lc.watchAt, lc.ends)
		default:
			d.next = min(d.next, max(lc.ends, now+time.Millisecond))
		}
	}
	for s, list := range watch {
		d.life.Go(func() { d.guard(s, list) })
	}
	d.compareWhenDue(now)
}

// age moves a claim whose time is over, or its session. The caller holds mu.
func (d *Driver) age(lc *localClaim, now time.Duration) {
	switch {
	case d.ctx.Err() != nil:
	case lc.state == claimKept && now >= lc.ends:
		lc.become(claimSpent, driver.ErrGone)
	case d.verdict(lc) != nil && lc.state == claimOver && now >= lc.ends:
		d.forget(lc) // nobody asked
	}
	if lc.session.Err() != nil {
		lc.become(claimOver, driver.ErrSession)
	}
}

// sweep removes the node of a claim that is over. If the server says no for good it is not asked again and again: only whoever
// gives the right back changes that, so the claim is forgotten. Its node is a stray then, which is tried once in compareEvery, and
// not at all once there are no claims. Who released the claim was told, and who waits is shown the node.
func (d *Driver) sweep(lc *localClaim) {
	ctx, cancel := context.WithTimeout(d.ctx, tendWithin)
	defer cancel()
	_, err := d.remove(ctx, lc)
	d.mu.Lock()
	defer d.mu.Unlock()
	lc.tended = false
	if err == nil || errors.Is(err, driver.ErrSession) || final(err) {
		d.forget(lc)
		return
	}
	lc.tryAt = wire.Now() + tendAgain
	d.look(lc.tryAt)
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
		lc.tended = false
		lc.watchAt = wire.Now() + tendAgain
		if err == nil && (d.inspected(lc, calls[i], false) != nil || lc.asks > lc.told) { // the renewal proves it, or not, and tells
			d.alerts[lc.claim.ID] = true
			d.wake()
		}
		if lc.state == claimWaiting && lc.head == nil && lc.signal != nil {
			lc.signal.raise() // so that it looks once more, and tells who holds
		}
	}
	d.look(wire.Now() + tendAgain)
}

// inspect returns a call that reads a claim's node, and watches it from then on. The caller holds mu.
func (d *Driver) inspect(lc *localClaim) *wire.Call {
	w := wire.NewWatch(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !lc.stands() {
			return
		}
		if lc.signal != nil {
			lc.signal.raise()
		}
		lc.watchAt = 0
		d.look(0)
		d.alert(lc)
	})
	return wire.Get(lc.path(), w)
}

// inspected takes the answer to inspect, and returns why the claim is over. If the answer is not proven, that the node is
// not there is no verdict, but [errUnproven]. The caller holds mu.
func (d *Driver) inspected(lc *localClaim, c *wire.Call, proven bool) error {
	switch {
	case !lc.stands():
		c.Unwatch()
		return lc.gone
	case c.Target() != lc.path(): // another node has come in its place meanwhile
		c.Unwatch()
		return nil
	case c.Err != nil && !errors.Is(c.Err, wire.NoNode):
		c.Unwatch()
		return nil // no permission to read it, which says nothing about the claim
	case c.Err != nil || c.Stat.Czxid != lc.czxid || c.Stat.Owner != lc.session.ID():
		c.Unwatch()
		if !proven {
			return errUnproven
		}
		lc.become(claimOver, driver.ErrGone)
		return lc.gone
	}
	held := readData(c.Data)
	if held.Kept > 0 {
		c.Unwatch()
		d.keep(lc, held.Kept)
		return lc.gone
	}
	lc.hear(c, &held)
	lc.data = c.Stat.Version
	lc.own.Drop()
	lc.own = c.Watch()
	return nil
}

// hear notes how often somebody has asked for the lock: in the node's data, as stile does, or in its place, as Curator does.
// The caller holds mu.
func (lc *localClaim) hear(c *wire.Call, held *data) {
	switch {
	case c.Data == revokeWord && c.Stat.Version != lc.data:
		lc.asks++
	case held.Asks > lc.counted:
		lc.asks += held.Asks - lc.counted
	}
	lc.counted = held.Asks
}

// keep notes that a claim has left, and that its node is to stay a while. The caller holds mu.
func (d *Driver) keep(lc *localClaim, length time.Duration) {
	if lc.become(claimKept, driver.ErrGone) {
		lc.ends = wire.Now() + length
		d.look(lc.ends)
	}
}
