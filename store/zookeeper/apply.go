package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// fresh makes the node of a claim that is not in the store.
func (k *keeper) fresh(
	ctx context.Context, f *folder, c *driver.Claim, ticket int64,
) (driver.Place, error) {
	if c.Try || reclaims(c) {
		p, err := f.precheck(ctx, c)
		if err != nil || p != nil {
			return *orZero(p), err
		}
	}
	record := newData(c)
	record.Ticket = ticket
	parents := []*wire.Call(nil)
	for range attempts {
		create := wire.Create(f.dir+"/"+f.layout.stem(c), record.text(), k.zk.acl)
		list := wire.List(f.dir, nil)
		// Each request gets a local claim of its own: during the last request the lease may have run out, and the janitor
		// may have forgotten the claim.
		lc := newLocalClaim(c, f, create)
		if !k.begin(lc) {
			return driver.Place{}, driver.ErrClosed
		}
		err := f.session.Do(ctx, append(slices.Clip(parents), create, list)...)
		if err == nil && errors.Is(create.Err, wire.NoNode) && makesParents(parents) {
			parents = k.zk.parents(f.dir)
			continue
		}
		if err := k.created(ctx, lc, create, parents, err); err != nil {
			return driver.Place{}, err
		}
		return k.judgeFresh(ctx, c, lc, list)
	}
	return driver.Place{}, driver.Unreachable(errors.New("the lock's node is removed as often as it is made"))
}

// begin enters a claim into the table before the request for its node. It reports false if the driver is closed.
func (k *keeper) begin(lc *localClaim) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.zk.ctx.Err() != nil {
		return false
	}
	k.localClaims[lc.claim.ID] = lc
	k.janitor.expect()
	k.prolong(lc, lc.claim.TTL)
	return true
}

// created notes the outcome of the request for a claim's node. A claim whose node certainly was not made is dropped.
func (k *keeper) created(ctx context.Context, lc *localClaim, create *wire.Call, parents []*wire.Call, err error) error {
	if inVain(err) {
		k.drop(lc)
	}
	switch {
	case err != nil:
		return k.zk.explain(ctx, err)
	case create.Err != nil:
		k.drop(lc)
		for _, p := range parents {
			if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && errors.Is(create.Err, wire.NoNode) {
				return k.zk.missing(p)
			}
		}
		return k.zk.refused(lc.dir, create.Err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lc.settled(create, create) // if the lease ran out meanwhile, the janitor may have settled it before
	return nil
}

// inVain reports whether a request was not sent, or its session is over: then its node does not exist, and never will.
func inVain(err error) bool {
	_, unsent := errors.AsType[*wire.Unsent](err)
	return unsent || errors.Is(err, wire.ErrExpired) || errors.Is(err, wire.ErrRefused)
}

// judgeFresh returns the place of a claim whose node was just made.
func (k *keeper) judgeFresh(ctx context.Context, c *driver.Claim, lc *localClaim, list *wire.Call) (driver.Place, error) {
	p, err := k.judge(ctx, c, lc, list, true, false)
	if errors.Is(err, errUnproven) {
		p, err = k.stands(ctx, c, lc, true)
	}
	switch driver.OutcomeOf(err) {
	case driver.OutcomeUnsent:
		err = driver.Unknown(err) // the unsent request came after the one that made the node
	case driver.OutcomeRefused: // so nothing was done
		k.mu.Lock()
		if k.localClaims[c.ID] == lc && lc.end() {
			k.janitor.look(0)
		}
		k.mu.Unlock()
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
func (e *ensemble) parents(dir string) []*wire.Call {
	var calls []*wire.Call
	for i := len(e.chroot) + 1; i <= len(dir); i++ {
		if i == len(dir) || dir[i] == '/' {
			calls = append(calls, wire.CreateContainer(dir[:i], e.acl))
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
func (e *ensemble) missing(parent *wire.Call) error {
	if errors.Is(parent.Err, wire.NoNode) {
		return e.noChroot()
	}
	return e.refused(parent.Target(), parent.Err)
}
