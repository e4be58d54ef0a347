package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/zookeeper/internal/wire"
)

const (
	never = time.Duration(1<<63 - 1)

	// Most sections are over before their node would be worth a watch.
	watchAfter = 50 * time.Millisecond

	// How soon what failed is tried again, and how long a try may take.
	mindAgain  = 200 * time.Millisecond
	mindWithin = 5 * time.Second
)

// look has the minder look at the stakes at a time, or a little before. The caller holds mu.
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
func (d *Driver) alert(st *stake) {
	if st.stands() || errors.Is(st.gone, driver.ErrSession) {
		d.alerts[st.claim.ID] = true
		d.wake()
	}
}

// hurt is told that a session lost its connection, or is over.
func (d *Driver) hurt(s *wire.Session) {
	over := s.Err() != nil
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, st := range d.stakes {
		if st.session != s {
			continue
		}
		if over {
			st.become(claimOver, driver.ErrSession)
		}
		d.alert(st)
	}
}

// mind sees to the stakes until the driver is closed: it ends leases, removes nodes that must go, watches the nodes of
// claims, and tells which are in danger.
func (d *Driver) mind() {
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
	watch := map[*wire.Session][]*stake{}
	for _, st := range d.stakes {
		switch {
		case d.ctx.Err() != nil:
		case st.state == claimKept && now >= st.ends:
			st.become(claimSpent, driver.ErrGone)
		case d.verdict(st) != nil && st.state == claimOver && now >= st.ends:
			d.forget(st) // nobody asked
		}
		if st.session.Err() != nil {
			st.become(claimOver, driver.ErrSession)
		}
		switch {
		case st.minding:
		case st.mustGo() && now >= st.tryAt:
			st.minding = true
			d.tasks.Go(func() { d.sweep(st) })
		case st.mustGo():
			d.next = min(d.next, st.tryAt)
		case st.stands() && !st.own.Stands() && st.name != "" && now >= st.watchAt:
			st.minding = true
			watch[st.session] = append(watch[st.session], st)
		case st.stands() && !st.own.Stands() && st.name != "":
			d.next = min(d.next, st.watchAt, st.ends)
		default:
			d.next = min(d.next, max(st.ends, now+time.Millisecond))
		}
	}
	for s, list := range watch {
		d.tasks.Go(func() { d.guard(s, list) })
	}
}

// sweep removes the node of a claim that is over.
func (d *Driver) sweep(st *stake) {
	ctx, cancel := context.WithTimeout(d.ctx, mindWithin)
	defer cancel()
	_, err := d.remove(ctx, st)
	d.mu.Lock()
	defer d.mu.Unlock()
	st.minding = false
	if err == nil || errors.Is(err, driver.ErrSession) {
		d.forget(st)
		return
	}
	st.tryAt = wire.Now() + mindAgain
	d.look(st.tryAt)
}

// guard sets watches on the nodes of claims.
func (d *Driver) guard(s *wire.Session, list []*stake) {
	ctx, cancel := context.WithTimeout(d.ctx, mindWithin)
	defer cancel()
	calls := make([]*wire.Call, len(list))
	for i, st := range list {
		calls[i] = d.inspect(st)
	}
	err := d.do(ctx, s, calls...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, st := range list {
		st.minding = false
		st.watchAt = wire.Now() + mindAgain
		if err == nil && d.inspected(st, calls[i], false) != nil { // the renewal proves it, or not
			d.alerts[st.claim.ID] = true
			d.wake()
		}
	}
	d.look(wire.Now() + mindAgain)
}

// inspect returns a call that reads a claim's node, and watches it from then on.
func (d *Driver) inspect(st *stake) *wire.Call {
	w := wire.NewWatch(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !st.stands() {
			return
		}
		if st.bell != nil {
			st.bell.ring()
		}
		st.watchAt = 0
		d.look(0)
		d.alert(st)
	})
	return wire.Get(st.path(), w)
}

// inspected takes the answer to inspect, and returns why the claim is over. If the answer is not proven, that the node is
// not there is no verdict, but [errUnproven]. The caller holds mu.
func (d *Driver) inspected(st *stake, c *wire.Call, proven bool) error {
	switch {
	case !st.stands():
		c.Unwatch()
		return st.gone
	case c.Err != nil && !errors.Is(c.Err, wire.NoNode):
		c.Unwatch()
		return nil // no permission to read it, which says nothing about the claim
	case c.Err != nil || c.Stat.Czxid != st.czxid || c.Stat.Owner != st.session.ID():
		c.Unwatch()
		if !proven {
			return errUnproven
		}
		st.become(claimOver, driver.ErrGone)
		return st.gone
	}
	if length := readData(c.Data).Kept; length > 0 {
		c.Unwatch()
		d.keep(st, length)
		return st.gone
	}
	st.own.Drop()
	st.own = c.Watch()
	return nil
}

// keep notes that a claim has left, and that its node is to stay a while. The caller holds mu.
func (d *Driver) keep(st *stake, length time.Duration) {
	if st.become(claimKept, driver.ErrGone) {
		st.ends = wire.Now() + length
		d.look(st.ends)
	}
}
