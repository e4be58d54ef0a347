package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/zookeeper/internal/wire"
)

// attempts is how often a request is made anew that met a parent which was removed, or a session that was over.
const attempts = 4

// Enter is one round trip for a lock that was in use before and is free, or for a claim that waits and is watched.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	dir, err := d.path(c.Name)
	if err == nil {
		err = d.shape(c)
	}
	if err != nil {
		return driver.Place{}, err
	}
	st := d.stakeOf(c.ID)
	if st != nil {
		p, err := d.again(ctx, c, st)
		if !errors.Is(err, errAnew) {
			return p, err
		}
	} else if c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	for range attempts {
		var s *wire.Session
		if s, err = d.live(); err != nil {
			return driver.Place{}, err
		}
		var p driver.Place
		p, err = d.fresh(ctx, s, dir, c)
		if !errors.Is(err, driver.ErrSession) {
			return p, err
		}
	}
	return driver.Place{}, driver.Unreachable(err)
}

// errAnew says that a claim is not in the store, and that its client does not know that it ever was.
var errAnew = errors.New("the claim enters as if for the first time")

// again finds a claim where it stands.
func (d *Driver) again(ctx context.Context, c *driver.Claim, st *stake) (driver.Place, error) {
	d.mu.Lock()
	gone, clear, left := d.verdict(st), st.clear, st.left
	if gone != nil && !clear && !left {
		d.forget(st)
	}
	d.mu.Unlock()
	switch {
	case gone != nil && (c.Ticket != 0 || left):
		return driver.Place{}, gone
	case clear:
		if _, err := d.remove(ctx, st); err != nil {
			return driver.Place{}, err
		}
		d.drop(st)
		return driver.Place{}, errAnew
	case gone != nil:
		return driver.Place{}, errAnew
	}
	stands, err := d.settle(ctx, st)
	if err != nil {
		return driver.Place{}, err
	}
	if !stands {
		d.drop(st)
		return driver.Place{}, errAnew
	}
	list := wire.List(st.dir, nil)
	calls := []*wire.Call{list}
	d.mu.Lock()
	unwatched := !st.own.Stands()
	d.mu.Unlock()
	if unwatched {
		calls = append(calls, d.inspect(st))
	}
	if err := d.do(ctx, st.session, calls...); err != nil {
		return driver.Place{}, err
	}
	if unwatched {
		d.mu.Lock()
		gone := d.inspected(st, calls[1])
		left := st.left
		if gone != nil && !left {
			d.forget(st)
		}
		d.mu.Unlock()
		if gone != nil && c.Ticket == 0 && !left {
			return driver.Place{}, errAnew
		}
		if gone != nil {
			return driver.Place{}, gone
		}
	}
	p, err := d.judge(ctx, c, st, list, false)
	if errors.Is(err, driver.ErrGone) && c.Ticket == 0 {
		return driver.Place{}, errAnew
	}
	return p, err
}

// fresh has a claim enter that is not in the store.
func (d *Driver) fresh(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (driver.Place, error) {
	if c.Try || c.Reclaim && c.Owner != "" {
		p, err := d.survey(ctx, s, dir, c)
		if err != nil || p != nil {
			return *orZero(p), err
		}
	}
	record := newData(c)
	st := &stake{claim: *c, dir: dir, session: s}
	parents := []*wire.Call(nil)
	for range attempts {
		create := wire.Create(dir+"/"+d.layout.stem(c), record.text(), d.acl)
		list := wire.List(dir, nil)
		d.mu.Lock()
		if d.ctx.Err() != nil {
			d.mu.Unlock()
			return driver.Place{}, driver.ErrClosed
		}
		st.create = create
		d.stakes[c.ID] = st
		d.prolong(st, c.TTL)
		d.mu.Unlock()
		err := s.Do(ctx, append(parents, create, list)...)
		if _, unsent := errors.AsType[*wire.Unsent](err); unsent || errors.Is(err, wire.ErrExpired) || errors.Is(err, wire.ErrRefused) {
			d.drop(st)
		}
		switch {
		case err != nil:
			return driver.Place{}, d.explain(ctx, err)
		case errors.Is(create.Err, wire.NoNode) && parents == nil:
			parents = d.parents(dir)
			continue
		case create.Err != nil:
			d.drop(st)
			for _, p := range parents {
				if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && errors.Is(create.Err, wire.NoNode) {
					return driver.Place{}, d.missing(p)
				}
			}
			return driver.Place{}, d.refused(dir, create.Err)
		}
		d.mu.Lock()
		st.made(create)
		d.mu.Unlock()
		p, err := d.judge(ctx, c, st, list, true)
		if driver.IsRejected(err) { // which says that nothing was done
			d.mu.Lock()
			if d.stakes[c.ID] == st && !st.left {
				st.over(driver.ErrGone, true)
				d.look(0)
			}
			d.mu.Unlock()
		}
		return p, err
	}
	return driver.Place{}, driver.Unreachable(errors.New("the lock's node is removed as often as it is made"))
}

func orZero(p *driver.Place) *driver.Place {
	if p == nil {
		return &driver.Place{}
	}
	return p
}

// parents returns calls that make what is above a claim's node, but not the chroot. What is there already refuses them.
func (d *Driver) parents(dir string) []*wire.Call {
	var calls []*wire.Call
	for i := len(d.chroot) + 1; i <= len(dir); i++ {
		if i == len(dir) || dir[i] == '/' {
			calls = append(calls, wire.CreateContainer(dir[:i], d.acl))
		}
	}
	return calls
}

// missing explains why a parent could not be made.
func (d *Driver) missing(parent *wire.Call) error {
	if errors.Is(parent.Err, wire.NoNode) {
		return d.noChroot()
	}
	return d.refused(parent.Target(), parent.Err)
}

// judge tells where a claim stands by the list of children, and has it watched if it waits.
func (d *Driver) judge(ctx context.Context, c *driver.Claim, st *stake, list *wire.Call, fresh bool) (driver.Place, error) {
	for {
		q, own, err := d.order(ctx, st, list)
		if err != nil {
			return driver.Place{}, err
		}
		if fresh && q.capacity() != c.Capacity {
			if err := d.withdraw(ctx, st); err != nil {
				return driver.Place{}, err
			}
			return driver.Place{}, &driver.CapacityError{Have: q.capacity(), Want: c.Capacity}
		}
		holds := own < q.holding()
		if fresh && c.Try && !holds {
			if err := d.withdraw(ctx, st); err != nil {
				return driver.Place{}, err
			}
			return d.behind(ctx, st.session, st.dir, q[:own])
		}
		p := driver.Place{Ticket: st.czxid, Holds: holds, Ahead: own}
		d.mu.Lock()
		if gone := d.verdict(st); gone != nil {
			d.mu.Unlock()
			return driver.Place{}, gone
		}
		lease := c.Wait
		if holds {
			lease = c.TTL
			st.unwatch()
			st.watchAt = wire.Now() + watchAfter
			d.look(st.watchAt)
		}
		if fresh {
			st.ends = 0 // until now it was not known whether it would hold
		}
		st.holds = holds
		d.prolong(st, lease)
		p.TTL = st.trusted()
		d.mu.Unlock()
		if holds {
			return p, nil
		}
		fresh = false // it has been let in
		again, err := d.wait(ctx, st, q, own, &p)
		if err != nil || again == nil {
			return p, err
		}
		list = again
	}
}

// order puts the children of a lock in the order in which they entered, and tells where the claim is among them.
func (d *Driver) order(ctx context.Context, st *stake, list *wire.Call) (queue, int, error) {
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return nil, 0, d.refused(st.dir, list.Err)
	}
	q, odd := d.layout.newQueue(list.Children)
	d.strange(st.dir, odd)
	own := q.find(st.name)
	if own < 0 {
		d.drop(st)
		return nil, 0, driver.ErrGone
	}
	if st.czxid >= 1<<53 {
		err := d.withdraw(ctx, st)
		return nil, 0, errors.Join(driver.Rejected(errors.New("zookeeper has counted further than tickets go")), err)
	}
	// A number is given twice if the parent's count has come to its end.
	for i := 0; i < len(q); i++ {
		if i == own || q[i].seq != q[own].seq {
			continue
		}
		twin := wire.Exists(st.dir+"/"+q[i].name, nil)
		if err := d.do(ctx, st.session, twin); err != nil {
			return nil, 0, err
		}
		if ahead := twin.Err == nil && twin.Stat.Czxid < st.czxid; ahead != (i < own) {
			q[i], q[own] = q[own], q[i]
			own, i = i, min(i, own)
		}
	}
	return q, own, nil
}

// wait watches what must go before the claim, and its own node, and completes its place. It returns a new list if some
// of that went meanwhile.
func (d *Driver) wait(ctx context.Context, st *stake, q queue, own int, p *driver.Place) (*wire.Call, error) {
	guards := q.guards(own)
	d.mu.Lock()
	if st.bell == nil || st.bell.silent() {
		st.unwatch() // the others would ring the old one
		st.bell = newBell()
	}
	ring := st.bell.ring
	var calls []*wire.Call
	inspect := (*wire.Call)(nil)
	if !st.own.Stands() {
		inspect = d.inspect(st)
		calls = append(calls, inspect)
	}
	kept, added := map[string]*wire.Watch{}, map[string]*wire.Call{}
	for _, g := range guards {
		if w := st.guards[g.name]; w.Stands() {
			kept[g.name] = w
			delete(st.guards, g.name)
			continue
		}
		added[g.name] = wire.Get(st.dir+"/"+g.name, wire.NewWatch(ring))
		calls = append(calls, added[g.name])
	}
	for _, w := range st.guards {
		w.Drop()
	}
	st.guards = kept
	d.mu.Unlock()
	head := added[q[0].name]
	if head == nil && st.head != nil && st.head.Target() == st.dir+"/"+q[0].name {
		head = st.head
	}
	if head == nil {
		head = wire.Get(st.dir+"/"+q[0].name, nil)
		calls = append(calls, head)
	}
	if err := d.do(ctx, st.session, calls...); err != nil {
		for _, c := range added {
			c.Unwatch()
		}
		return nil, err
	}
	d.mu.Lock()
	if inspect != nil {
		if gone := d.inspected(st, inspect); gone != nil {
			if !st.left {
				d.forget(st)
			}
			d.mu.Unlock()
			return nil, gone
		}
	}
	went := head.Err != nil
	if st.head = head; went {
		st.head = nil
	}
	for name, c := range added {
		if c.Err != nil {
			went = true // or may not be read, which a new list tells from that
			continue
		}
		if st.guards == nil {
			c.Unwatch() // it was told to go meanwhile
			continue
		}
		st.guards[name] = c.Watch()
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
	list := wire.List(st.dir, nil)
	return list, d.do(ctx, st.session, list)
}

// withdraw takes a claim out that was not let in.
func (d *Driver) withdraw(ctx context.Context, st *stake) error {
	d.mu.Lock()
	st.over(driver.ErrGone, true)
	st.tryAt = wire.Now() + mindAgain
	d.look(st.tryAt)
	d.mu.Unlock()
	_, err := d.remove(ctx, st)
	if err == nil {
		d.drop(st)
	}
	return err
}

// survey looks before a claim enters that may not have to. It returns the place of one that does not, and removes what
// is to be reclaimed for one that does.
func (d *Driver) survey(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (*driver.Place, error) {
	list := wire.List(dir, nil)
	if err := d.do(ctx, s, wire.Sync(dir), list); err != nil {
		return nil, err
	}
	if list.Err != nil {
		if errors.Is(list.Err, wire.NoNode) {
			return nil, nil
		}
		return nil, d.refused(dir, list.Err)
	}
	q, odd := d.layout.newQueue(list.Children)
	d.strange(dir, odd)
	rest, earlier := q, []*wire.Call(nil)
	if c.Reclaim && c.Owner != "" {
		gets, err := d.read(ctx, s, dir, q)
		if err != nil {
			return nil, err
		}
		rest = nil
		for i, get := range gets {
			if e := readData(get.Data); get.Err == nil && e.Owner == c.Owner && e.Client != c.Client {
				earlier = append(earlier, wire.Delete(dir+"/"+q[i].name))
			} else {
				rest = append(rest, q[i])
			}
		}
	}
	if len(rest) > 0 && rest.capacity() != c.Capacity {
		return nil, &driver.CapacityError{Have: rest.capacity(), Want: c.Capacity}
	}
	if c.Try && !rest.fits(c.Weight, c.Capacity) {
		p, err := d.behind(ctx, s, dir, q)
		return &p, err
	}
	if len(earlier) == 0 {
		return nil, nil
	}
	if err := d.do(ctx, s, earlier...); err != nil {
		return nil, err
	}
	for _, del := range earlier {
		if del.Err != nil && !errors.Is(del.Err, wire.NoNode) {
			return nil, d.refused(del.Target(), del.Err)
		}
	}
	return nil, nil
}

// behind is the place of a try that did not enter a queue.
func (d *Driver) behind(ctx context.Context, s *wire.Session, dir string, q queue) (driver.Place, error) {
	p := driver.Place{Ahead: len(q)}
	if len(q) == 0 {
		return p, nil
	}
	gets, err := d.read(ctx, s, dir, q[:1])
	if err != nil {
		return p, err
	}
	if gets[0].Err == nil {
		p.Blocker = q.standings(gets)[0]
	}
	return p, nil
}

// read reads the nodes of claims.
func (d *Driver) read(ctx context.Context, s *wire.Session, dir string, q queue) ([]*wire.Call, error) {
	gets := make([]*wire.Call, len(q))
	for i, n := range q {
		gets[i] = wire.Get(dir+"/"+n.name, nil)
	}
	return gets, d.do(ctx, s, gets...)
}

// standings are the first claims of a queue as observers see them, from what their nodes hold.
func (q queue) standings(gets []*wire.Call) []driver.Standing {
	list := make([]driver.Standing, len(gets))
	holding := q.holding()
	for i, get := range gets {
		held := readData(get.Data)
		list[i] = driver.Standing{
			Ticket: get.Stat.Czxid, Weight: q[i].weight, Holds: i < holding, Left: held.Kept > 0, Record: held.Record,
			Since: max(0, time.Since(time.UnixMilli(get.Stat.Ctime))), // for people: no two clocks agree
		}
	}
	return list
}

// Await waits for the watches that Enter set.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	d.mu.Lock()
	var b *bell
	if st := d.stakes[c.ID]; st != nil {
		b = st.bell
	}
	d.mu.Unlock()
	if b == nil {
		return driver.Place{}, ctx.Err()
	}
	select {
	case <-b.rung:
		d.mu.Lock()
		if st := d.stakes[c.ID]; st != nil && st.bell == b {
			st.bell = nil
		}
		d.mu.Unlock()
		return driver.Place{}, nil
	case <-ctx.Done():
		return driver.Place{}, ctx.Err()
	case <-d.ctx.Done():
		return driver.Place{}, driver.ErrClosed
	}
}
