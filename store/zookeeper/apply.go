package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// fresh makes the node of a claim that is not in the store.
func (d *Driver) fresh(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (driver.Place, error) {
	if c.Try || reclaims(c) {
		p, err := d.precheck(ctx, s, dir, c)
		if err != nil || p != nil {
			return *orZero(p), err
		}
	}
	record, layout := d.newData(c), d.layoutOf(dir)
	parents := []*wire.Call(nil)
	for range attempts {
		create := wire.Create(dir+"/"+layout.stem(c), record.text(), d.acl)
		list := wire.List(dir, nil)
		// Each request gets a local claim of its own: during the last request the lease may have run out, and the janitor
		// may have forgotten the claim.
		lc := newLocalClaim(c, dir, layout, s, create)
		if !d.begin(lc) {
			return driver.Place{}, driver.ErrClosed
		}
		err := s.Do(ctx, append(slices.Clip(parents), create, list)...)
		if err == nil && errors.Is(create.Err, wire.NoNode) && makesParents(parents) {
			parents = d.parents(dir)
			continue
		}
		if err := d.created(ctx, lc, create, parents, err); err != nil {
			return driver.Place{}, err
		}
		return d.judgeFresh(ctx, c, lc, list)
	}
	return driver.Place{}, driver.Unreachable(errors.New("the lock's node is removed as often as it is made"))
}

// begin enters a claim into the table before the request for its node. It reports false if the driver is closed.
func (d *Driver) begin(lc *localClaim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.localClaims[lc.claim.ID] = lc
	d.expect()
	d.prolong(lc, lc.claim.TTL)
	return true
}

// created notes the outcome of the request for a claim's node. A claim whose node certainly was not made is dropped.
func (d *Driver) created(ctx context.Context, lc *localClaim, create *wire.Call, parents []*wire.Call, err error) error {
	if inVain(err) {
		d.drop(lc)
	}
	switch {
	case err != nil:
		return d.explain(ctx, err)
	case create.Err != nil:
		d.drop(lc)
		for _, p := range parents {
			if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && errors.Is(create.Err, wire.NoNode) {
				return d.missing(p)
			}
		}
		return d.refused(lc.dir, create.Err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lc.settled(create, create) // if the lease ran out meanwhile, the janitor may have settled it before
	return nil
}

// inVain reports whether a request was not sent, or its session is over: then its node does not exist, and never will.
func inVain(err error) bool {
	_, unsent := errors.AsType[*wire.Unsent](err)
	return unsent || errors.Is(err, wire.ErrExpired) || errors.Is(err, wire.ErrRefused)
}

// judgeFresh returns the place of a claim whose node was just made.
func (d *Driver) judgeFresh(ctx context.Context, c *driver.Claim, lc *localClaim, list *wire.Call) (driver.Place, error) {
	p, err := d.judge(ctx, c, lc, list, true, false)
	if errors.Is(err, errUnproven) {
		p, err = d.stands(ctx, c, lc, true)
	}
	switch driver.OutcomeOf(err) {
	case driver.OutcomeUnsent:
		err = driver.Unknown(err) // the unsent request came after the one that made the node
	case driver.OutcomeRefused: // so nothing was done
		d.mu.Lock()
		if d.localClaims[c.ID] == lc && lc.end() {
			d.look(0)
		}
		d.mu.Unlock()
	}
	return p, err
}

func orZero(p *driver.Place) *driver.Place {
	if p == nil {
		return &driver.Place{}
	}
	return p
}

// parents returns calls that make the nodes above a claim's node, except the chroot. The server refuses a call whose node
// exists.
func (d *Driver) parents(dir string) []*wire.Call {
	var calls []*wire.Call
	for i := len(d.chroot) + 1; i <= len(dir); i++ {
		if i == len(dir) || dir[i] == '/' {
			calls = append(calls, wire.CreateContainer(dir[:i], d.acl))
		}
	}
	return calls
}

// makesParents reports whether the parents of a node must be made, since the node lacks one. They may have to be made a
// second time: the server removes empty containers, also between two requests. If the first call is refused for lack of a
// node, the chroot is missing.
func makesParents(parents []*wire.Call) bool {
	for i, p := range parents {
		if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && (i == 0 || !errors.Is(p.Err, wire.NoNode)) {
			return false
		}
	}
	return true
}

// missing explains why a parent could not be made.
func (d *Driver) missing(parent *wire.Call) error {
	if errors.Is(parent.Err, wire.NoNode) {
		return d.noChroot()
	}
	return d.refused(parent.Target(), parent.Err)
}
