package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/zookeeper/internal/wire"
)

// judge tells where a claim stands by the list of children, and has it watched if it waits. The list of a fresh claim was
// read after the request that made its node, on the same connection, which proves it.
func (d *Driver) judge(
	ctx context.Context, c *driver.Claim, lc *localClaim, list *wire.Call, fresh, proven bool,
) (driver.Place, error) {
	for {
		q, own, err := d.order(ctx, lc, list, fresh || proven)
		if err != nil {
			return driver.Place{}, err
		}
		if fresh && q.capacity() != c.Capacity {
			if err := d.withdraw(ctx, lc); err != nil {
				return driver.Place{}, err
			}
			return driver.Place{}, &driver.CapacityError{Have: q.capacity(), Want: c.Capacity}
		}
		holds := own < q.holding()
		if fresh && c.Try && !holds {
			if err := d.withdraw(ctx, lc); err != nil {
				return driver.Place{}, err
			}
			return d.behind(ctx, lc.session, lc.dir, q[:own])
		}
		p := driver.Place{Ticket: lc.czxid, Holds: holds, Ahead: own}
		d.mu.Lock()
		if gone := d.verdict(lc); gone != nil {
			d.mu.Unlock()
			return driver.Place{}, gone
		}
		lease := c.Wait
		if holds {
			lease = c.TTL
			lc.unwatch()
			lc.watchAt = wire.Now() + watchAfter
			d.look(lc.watchAt)
		}
		if fresh {
			lc.ends = 0 // until now it was not known whether it would hold
		}
		lc.place(holds)
		d.prolong(lc, lease)
		p.TTL = lc.trusted()
		d.mu.Unlock()
		if holds {
			return p, nil
		}
		fresh = false // it has been let in
		again, err := d.wait(ctx, lc, q, own, &p, proven)
		if err != nil || again == nil {
			return p, err
		}
		list = again
	}
}

// order puts the children of a lock in the order in which they entered, and tells where the claim is among them.
func (d *Driver) order(ctx context.Context, lc *localClaim, list *wire.Call, proven bool) (queue, int, error) {
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return nil, 0, d.refused(lc.dir, list.Err)
	}
	q, odd := d.layoutOf(lc.dir).newQueue(list.Children)
	d.strange(lc.dir, odd)
	own := q.find(lc.name)
	if own < 0 && !proven {
		return nil, 0, errUnproven
	}
	if own < 0 {
		d.drop(lc)
		return nil, 0, driver.ErrGone
	}
	if lc.czxid >= 1<<53 {
		err := d.withdraw(ctx, lc)
		return nil, 0, errors.Join(driver.Refused(errors.New("zookeeper has counted further than tickets go")), err)
	}
	// A number is given twice if the parent's count has come to its end.
	for i := 0; i < len(q); i++ {
		if i == own || q[i].seq != q[own].seq {
			continue
		}
		twin := wire.Exists(lc.dir+"/"+q[i].name, nil)
		if err := d.do(ctx, lc.session, twin); err != nil {
			return nil, 0, err
		}
		if ahead := twin.Err == nil && twin.Stat.Czxid < lc.czxid; ahead != (i < own) {
			q[i], q[own] = q[own], q[i]
			own, i = i, min(i, own)
		}
	}
	return q, own, nil
}

// wait watches what must go before the claim, and its own node, and completes its place. It returns a new list if some
// of that went meanwhile.
func (d *Driver) wait(
	ctx context.Context, lc *localClaim, q queue, own int, p *driver.Place, proven bool,
) (*wire.Call, error) {
	guards := q.guards(own)
	d.mu.Lock()
	if lc.signal == nil || lc.signal.isRaised() {
		lc.unwatch() // the others would raise the old one
		lc.signal = newSignal()
	}
	raise := lc.signal.raise
	var calls []*wire.Call
	inspect := (*wire.Call)(nil)
	if !lc.own.Stands() {
		inspect = d.inspect(lc)
		calls = append(calls, inspect)
	}
	kept, added := map[string]*wire.Watch{}, map[string]*wire.Call{}
	for _, g := range guards {
		if w := lc.guards[g.name]; w.Stands() {
			kept[g.name] = w
			delete(lc.guards, g.name)
			continue
		}
		added[g.name] = wire.Get(lc.dir+"/"+g.name, wire.NewWatch(raise))
		calls = append(calls, added[g.name])
	}
	for _, w := range lc.guards {
		w.Drop()
	}
	lc.guards = kept
	d.mu.Unlock()
	head := added[q[0].name]
	if head == nil && lc.head != nil && lc.head.Target() == lc.dir+"/"+q[0].name {
		head = lc.head
	}
	if head == nil {
		head = wire.Get(lc.dir+"/"+q[0].name, nil)
		calls = append(calls, head)
	}
	drop := func() {
		for _, c := range added {
			c.Unwatch()
		}
	}
	if proven {
		calls = d.proven(calls...) // the session may have moved to another server since the list was read
	}
	if err := d.do(ctx, lc.session, calls...); err != nil {
		drop()
		return nil, err
	}
	if inspect != nil {
		if err := d.present(lc, inspect, proven); err != nil {
			drop()
			return nil, err
		}
	}
	d.mu.Lock()
	went := head.Err != nil
	if lc.head = head; went {
		lc.head = nil
	}
	for name, c := range added {
		if c.Err != nil {
			went = true // or may not be read, which a new list tells from that
			continue
		}
		if lc.guards == nil {
			c.Unwatch() // it was told to go meanwhile
			continue
		}
		lc.guards[name] = c.Watch()
	}
	d.mu.Unlock()
	if !went {
		p.Blocker = q.standings([]*wire.Call{head})[0]
		return nil, nil
	}
	for _, c := range calls {
		if errors.Is(c.Err, wire.NoAuth) {
			return nil, d.refused(c.Target(), c.Err)
		}
	}
	list := wire.List(lc.dir, nil)
	calls = []*wire.Call{list}
	if proven {
		calls = d.proven(list)
	}
	return list, d.do(ctx, lc.session, calls...)
}

// withdraw takes a claim out that was not let in.
func (d *Driver) withdraw(ctx context.Context, lc *localClaim) error {
	d.mu.Lock()
	lc.end()
	lc.tryAt = wire.Now() + tendAgain
	d.look(lc.tryAt)
	d.mu.Unlock()
	_, err := d.remove(ctx, lc)
	if err == nil {
		d.drop(lc)
	}
	return driver.Afterwards(err) // it has entered, and will be removed
}
