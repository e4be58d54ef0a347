package line

import (
	"context"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// precheck reads the queue before a claim enters that tries or reclaims. If the claim does not enter, precheck returns its
// place. Otherwise it removes the claims that this one reclaims.
func (f *Folder) precheck(ctx context.Context, c *driver.Claim) (*driver.Place, error) {
	for {
		q, err := f.queue(ctx, c)
		if err != nil {
			return nil, err
		}
		p, err := q.Admit(c)
		if err != nil {
			return nil, err
		}
		if p != nil {
			*p, err = f.behind(ctx, q)
			return p, err
		}
		if again, err := f.evict(ctx, q.Earlier(c)); !again {
			return nil, err
		}
	}
}

// evictSince removes the claims of earlier runs that entered after precheck had read the queue, but ahead of the claim's own
// node. It returns the new list of children. Nobody enters ahead of a claim that has a place, so evictSince does nothing for
// a claim that knows its ticket.
func (k *Keeper) evictSince(
	ctx context.Context, c *driver.Claim, lc *LocalClaim, list *wire.Call, proven bool,
) (*wire.Call, error) {
	for c.Ticket == 0 && Reclaims(c) && list.Err == nil {
		q, _ := lc.layout.NewQueue(list.Children)
		q = q[:max(0, znode.Find(q, k.nameOf(lc)))]
		if err := lc.read(ctx, q); err != nil {
			return list, err
		}
		earlier := q.Earlier(c)
		if len(earlier) == 0 {
			return list, nil
		}
		if _, err := lc.evict(ctx, earlier); err != nil {
			return list, err
		}
		list = wire.List(lc.dir, nil)
		calls := []*wire.Call{list}
		if proven {
			calls = k.zk.Proven(list)
		}
		if err := k.zk.Do(ctx, lc.Session, calls...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// behind returns the place behind a queue, for a try that did not enter.
func (f *Folder) behind(ctx context.Context, q znode.Queue) (driver.Place, error) {
	if len(q) == 0 {
		return driver.Place{}, nil
	}
	if err := f.read(ctx, q[:1]); err != nil {
		return driver.Place{}, err
	}
	p := q.Place(len(q))
	if q[0].Read.Err != nil { // it has gone meanwhile
		p.Blocker = driver.ClaimInfo{}
	}
	return p, nil
}
