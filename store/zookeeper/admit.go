package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A folder is the nodes under one path, as a session sees them. What it does needs nothing that is known here of claims.
type folder struct {
	zk      *ensemble
	session *wire.Session
	dir     string // the path
	layout  layout // how the nodes are named
}

// folder is that of a path.
func (k *keeper) folder(s *wire.Session, dir string) *folder {
	return &folder{zk: k.zk, session: s, dir: dir, layout: k.layoutOf(dir)}
}

// precheck reads the queue before a claim that may not have to enter, such as a try or one that reclaims. It returns the
// place of a claim that does not enter, and removes the claims that an entering one reclaims.
func (f *folder) precheck(ctx context.Context, c *driver.Claim) (*driver.Place, error) {
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

// reclaim removes the claims under a folder that a claim reclaims, without asking whether the claim fits there.
func (f *folder) reclaim(ctx context.Context, c *driver.Claim) error {
	for {
		q, err := f.queue(ctx, c)
		if err != nil {
			return err
		}
		if again, err := f.evict(ctx, q.Earlier(c)); !again {
			return err
		}
	}
}

// queueUnder returns the queue of a folder for a claim that is about to enter. If the claim reclaims, the nodes' data are
// read too.
func (f *folder) queue(ctx context.Context, c *driver.Claim) (queue, error) {
	list := wire.List(f.dir, nil)
	if err := f.zk.do(ctx, f.session, wire.Sync(f.dir), list); err != nil {
		return nil, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, f.zk.refused(f.dir, list.Err)
	}
	q, odd := f.layout.newQueue(list.Children)
	f.zk.strange(f.dir, odd)
	if !reclaims(c) {
		return q, nil
	}
	return q, f.read(ctx, q)
}

func reclaims(c *driver.Claim) bool { return c.Reclaim && c.Owner != "" }

// evict removes the claims that are reclaimed. If one of them just left and is kept, again is true, and the caller starts
// over.
func (f *folder) evict(ctx context.Context, earlier queue) (again bool, err error) {
	if len(earlier) == 0 {
		return false, nil
	}
	deletes := make([]*wire.Call, len(earlier))
	for i, n := range earlier {
		deletes[i] = wire.DeleteAt(f.dir+"/"+n.name, n.read.Stat.Version)
	}
	if err := f.zk.do(ctx, f.session, deletes...); err != nil {
		return false, err
	}
	for _, del := range deletes {
		if errors.Is(del.Err, wire.BadVersion) {
			return true, nil
		}
		if del.Err != nil && !errors.Is(del.Err, wire.NoNode) {
			return false, f.zk.refused(del.Target(), del.Err)
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
			calls = k.zk.proven(list)
		}
		if err := k.zk.do(ctx, lc.session, calls...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// behind returns the place of a try that did not enter a queue.
func (f *folder) behind(ctx context.Context, q queue) (driver.Place, error) {
	if len(q) == 0 {
		return driver.Place{}, nil
	}
	if err := f.read(ctx, q[:1]); err != nil {
		return driver.Place{}, err
	}
	p := q.Place(len(q))
	if q[0].read.Err != nil { // it has gone meanwhile
		p.Blocker = driver.ClaimInfo{}
	}
	return p, nil
}
