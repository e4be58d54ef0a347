package zookeeper

import (
	"context"
	"errors"

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
	if d.layout == semaphoreLayout {
		return d.enterSemaphore(ctx, dir, c)
	}
	return d.enter(ctx, dir, c)
}

// enter puts a claim among the children of a path, or finds it there.
func (d *Driver) enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error) {
	lc := d.localClaimOf(c.ID)
	if lc != nil {
		p, err := d.again(ctx, c, lc)
		if !errors.Is(err, errAnew) {
			return p, err
		}
	} else if c.Ticket != 0 {
		return driver.Place{}, driver.ErrGone
	}
	var err error
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
func (d *Driver) again(ctx context.Context, c *driver.Claim, lc *localClaim) (driver.Place, error) {
	d.mu.Lock()
	gone, clear, left := d.verdict(lc), lc.mustGo(), lc.state == claimKept
	if lc.state == claimOver {
		d.forget(lc)
	}
	d.mu.Unlock()
	switch {
	case gone != nil && (c.Ticket != 0 || left):
		return driver.Place{}, gone
	case clear:
		if _, err := d.remove(ctx, lc); err != nil {
			return driver.Place{}, err
		}
		d.drop(lc)
		return driver.Place{}, errAnew
	case gone != nil:
		return driver.Place{}, errAnew
	}
	stands, err := d.settle(ctx, lc)
	if err != nil {
		return driver.Place{}, err
	}
	if !stands {
		d.drop(lc)
		return driver.Place{}, errAnew
	}
	p, err := d.stands(ctx, c, lc, false)
	if errors.Is(err, errUnproven) {
		p, err = d.stands(ctx, c, lc, true)
	}
	d.mu.Lock()
	left = lc.state == claimKept
	d.mu.Unlock()
	if errors.Is(err, driver.ErrGone) && c.Ticket == 0 && !left {
		return driver.Place{}, errAnew
	}
	return p, err
}

// stands tells where a claim stands whose node is there, most likely. If that is not to be proven, and the server does not
// show the node, the error is errUnproven.
func (d *Driver) stands(ctx context.Context, c *driver.Claim, lc *localClaim, proven bool) (driver.Place, error) {
	list := wire.List(lc.dir, nil)
	calls := []*wire.Call{list}
	d.mu.Lock()
	inspect := (*wire.Call)(nil)
	if !lc.own.Stands() {
		inspect = d.inspect(lc)
		calls = append(calls, inspect)
	}
	d.mu.Unlock()
	if proven {
		calls = d.proven(calls...)
	}
	if err := d.do(ctx, lc.session, calls...); err != nil {
		return driver.Place{}, err
	}
	if inspect != nil {
		if err := d.present(lc, inspect, proven); err != nil {
			return driver.Place{}, err
		}
	}
	return d.judge(ctx, c, lc, list, false, proven)
}

// present is inspected for a claim that asks where it stands: one that is gone is forgotten.
func (d *Driver) present(lc *localClaim, inspect *wire.Call, proven bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.inspected(lc, inspect, proven)
	if errors.Is(err, driver.ErrGone) && lc.state != claimKept {
		d.forget(lc)
	}
	return err
}

// fresh has a claim enter that is not in the store.
func (d *Driver) fresh(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (driver.Place, error) {
	if c.Try || c.Reclaim && c.Owner != "" {
		p, err := d.precheck(ctx, s, dir, c)
		if err != nil || p != nil {
			return *orZero(p), err
		}
	}
	record := d.newData(c)
	lc := &localClaim{claim: *c, dir: dir, session: s}
	parents := []*wire.Call(nil)
	for range attempts {
		create := wire.Create(dir+"/"+d.layoutOf(dir).stem(c), record.text(), d.acl)
		list := wire.List(dir, nil)
		d.mu.Lock()
		if d.ctx.Err() != nil {
			d.mu.Unlock()
			return driver.Place{}, driver.ErrClosed
		}
		lc.create = create
		d.localClaims[c.ID] = lc
		d.prolong(lc, c.TTL)
		d.mu.Unlock()
		err := s.Do(ctx, append(parents, create, list)...)
		_, unsent := errors.AsType[*wire.Unsent](err)
		if unsent || errors.Is(err, wire.ErrExpired) || errors.Is(err, wire.ErrRefused) {
			d.drop(lc)
		}
		switch {
		case err != nil:
			return driver.Place{}, d.explain(ctx, err)
		case errors.Is(create.Err, wire.NoNode) && parents == nil:
			parents = d.parents(dir)
			continue
		case create.Err != nil:
			d.drop(lc)
			for _, p := range parents {
				if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && errors.Is(create.Err, wire.NoNode) {
					return driver.Place{}, d.missing(p)
				}
			}
			return driver.Place{}, d.refused(dir, create.Err)
		}
		d.mu.Lock()
		lc.made(create)
		d.mu.Unlock()
		p, err := d.judge(ctx, c, lc, list, true, false)
		if errors.Is(err, errUnproven) {
			p, err = d.stands(ctx, c, lc, true)
		}
		switch driver.OutcomeOf(err) {
		case driver.OutcomeUnsent:
			err = driver.Unknown(err) // what was not sent came after the request that has let it in
		case driver.OutcomeRefused: // which says that nothing was done
			d.mu.Lock()
			if d.localClaims[c.ID] == lc && lc.end() {
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
