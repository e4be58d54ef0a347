package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// precheck reads the queue before a claim that may not have to enter, such as a try or one that reclaims. It returns the
// place of a claim that does not enter, and removes the claims that an entering one reclaims.
func (k *keeper) precheck(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (*driver.Place, error) {
	for {
		q, err := k.queueUnder(ctx, s, dir, c)
		if err != nil {
			return nil, err
		}
		p, err := q.Admit(c)
		if err != nil {
			return nil, err
		}
		if p != nil {
			*p, err = k.behind(ctx, s, dir, q)
			return p, err
		}
		if again, err := k.evict(ctx, s, dir, q.Earlier(c)); !again {
			return nil, err
		}
	}
}

// reclaim removes the claims under a folder that a claim reclaims, without asking whether the claim fits there.
func (k *keeper) reclaim(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) error {
	for {
		q, err := k.queueUnder(ctx, s, dir, c)
		if err != nil {
			return err
		}
		if again, err := k.evict(ctx, s, dir, q.Earlier(c)); !again {
			return err
		}
	}
}

// queueUnder returns the queue of a folder for a claim that is about to enter. If the claim reclaims, the nodes' data are
// read too.
func (k *keeper) queueUnder(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (queue, error) {
	list := wire.List(dir, nil)
	if err := k.zk.do(ctx, s, wire.Sync(dir), list); err != nil {
		return nil, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, k.zk.refused(dir, list.Err)
	}
	q, odd := k.layoutOf(dir).newQueue(list.Children)
	k.zk.strange(dir, odd)
	if !reclaims(c) {
		return q, nil
	}
	return q, k.read(ctx, s, dir, q)
}

func reclaims(c *driver.Claim) bool { return c.Reclaim && c.Owner != "" }

// evict removes the claims that are reclaimed. If one of them just left and is kept, again is true, and the caller starts
// over.
func (k *keeper) evict(ctx context.Context, s *wire.Session, dir string, earlier queue) (again bool, err error) {
	if len(earlier) == 0 {
		return false, nil
	}
	deletes := make([]*wire.Call, len(earlier))
	for i, n := range earlier {
		deletes[i] = wire.DeleteAt(dir+"/"+n.name, n.read.Stat.Version)
	}
	if err := k.zk.do(ctx, s, deletes...); err != nil {
		return false, err
	}
	for _, del := range deletes {
		if errors.Is(del.Err, wire.BadVersion) {
			return true, nil
		}
		if del.Err != nil && !errors.Is(del.Err, wire.NoNode) {
			return false, k.zk.refused(del.Target(), del.Err)
		}
	}
	return false, nil
}

// evictSince removes the claims of earlier runs that were made ahead of the claim's own node after precheck had read the
// queue, and returns the new list of children. Nobody enters ahead of a claim that has a place, so a claim that knows its
// ticket has nothing to remove.
func (k *keeper) evictSince(
	ctx context.Context, c *driver.Claim, lc *localClaim, list *wire.Call, proven bool,
) (*wire.Call, error) {
	for c.Ticket == 0 && reclaims(c) && list.Err == nil {
		q, _ := lc.layout.newQueue(list.Children)
		q = q[:max(0, find(q, k.nameOf(lc)))]
		if err := k.read(ctx, lc.session, lc.dir, q); err != nil {
			return list, err
		}
		earlier := q.Earlier(c)
		if len(earlier) == 0 {
			return list, nil
		}
		if _, err := k.evict(ctx, lc.session, lc.dir, earlier); err != nil {
			return list, err
		}
		list = wire.List(lc.dir, nil)
		calls := []*wire.Call{list}
		if proven {
			calls = k.zk.proven(list)
		}
		if err := k.zk.do(ctx, lc.session, calls...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// behind returns the place of a try that did not enter a queue.
func (k *keeper) behind(ctx context.Context, s *wire.Session, dir string, q queue) (driver.Place, error) {
	if len(q) == 0 {
		return driver.Place{}, nil
	}
	if err := k.read(ctx, s, dir, q[:1]); err != nil {
		return driver.Place{}, err
	}
	p := q.Place(len(q))
	if q[0].read.Err != nil { // it has gone meanwhile
		p.Blocker = driver.ClaimInfo{}
	}
	return p, nil
}
