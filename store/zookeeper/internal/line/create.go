package line

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// enterNew makes the node of a claim that is not in the store, and returns the claim's place. It is no goal of pursue:
// there is no node yet to decide by. Each request has a local claim of its own, and the list of children goes with it.
func (k *Keeper) enterNew(
	ctx context.Context, f *Folder, c *driver.Claim, first znode.First,
) (driver.Place, error) {
	if c.Try || Reclaims(c) {
		p, err := f.precheck(ctx, c)
		if err != nil || p != nil {
			return *orZero(p), err
		}
	}
	record := znode.NewData(c)
	record.First = first
	parents := []*wire.Call(nil)
	for range ensemble.Attempts {
		create := wire.Create(f.dir+"/"+f.layout.Stem(c), record.Text(), k.zk.ACL)
		list := wire.List(f.dir, nil)
		// Each request gets a local claim of its own: during the last request the lease may have run out, and the janitor
		// may have forgotten the claim.
		lc := newLocalClaim(c, f, create)
		if !k.begin(lc) {
			return driver.Place{}, driver.ErrClosed
		}
		err := f.Session.Do(ctx, append(slices.Clip(parents), create, list)...)
		if err == nil && errors.Is(create.Err, wire.NoNode) && ensemble.MakesParents(parents) {
			parents = k.zk.Parents(f.dir)
			continue
		}
		if err := k.created(ctx, lc, create, parents, err); err != nil {
			return driver.Place{}, err
		}
		return k.judgeNew(ctx, c, lc, list)
	}
	return driver.Place{}, driver.Unreachable(errors.New("the lock's node is removed as often as it is made"))
}

// begin puts a claim into the table before the request for its node is sent. It returns false if the driver is closed.
func (k *Keeper) begin(lc *LocalClaim) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.zk.Ctx.Err() != nil {
		return false
	}
	k.localClaims[lc.claim.ID] = lc
	k.janitor.expectLocked()
	k.ProlongLocked(lc, lc.claim.TTL)
	return true
}

// created notes the outcome of the request for a claim's node. It drops the claim if the node was certainly not made.
func (k *Keeper) created(ctx context.Context, lc *LocalClaim, create *wire.Call, parents []*wire.Call, err error) error {
	if ensemble.InVain(err) {
		k.forget(lc)
	}
	switch {
	case err != nil:
		return k.zk.Explain(ctx, err)
	case create.Err != nil:
		k.forget(lc)
		for _, p := range parents {
			if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && errors.Is(create.Err, wire.NoNode) {
				return k.zk.Missing(p)
			}
		}
		return k.zk.Refused(lc.dir, create.Err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lc.settledLocked(create, create) // if the lease ran out meanwhile, the janitor may have settled it before
	return nil
}

// judgeNew returns the place of a claim whose node was just made.
func (k *Keeper) judgeNew(ctx context.Context, c *driver.Claim, lc *LocalClaim, list *wire.Call) (driver.Place, error) {
	p, err := k.judge(ctx, c, lc, list, true, false)
	if errors.Is(err, errUnproven) {
		p, err = k.readPlace(ctx, c, lc, true)
	}
	switch driver.OutcomeOf(err) {
	case driver.OutcomeUnsent:
		err = driver.Unknown(err) // the unsent request came after the one that made the node
	case driver.OutcomeRefused: // which promises that nothing is left
		k.mu.Lock()
		if k.localClaims[c.ID] == lc && lc.endLocked() {
			k.janitor.scheduleLocked(0)
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
