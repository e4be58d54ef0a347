package zookeeper

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// precheck looks before a claim enters that may not have to. It returns the place of one that does not, and removes what
// is to be reclaimed for one that does.
func (d *Driver) precheck(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (*driver.Place, error) {
	for {
		q, err := d.queueUnder(ctx, s, dir, c)
		if err != nil {
			return nil, err
		}
		p, err := q.Admit(c)
		if err != nil {
			return nil, err
		}
		if p != nil {
			*p, err = d.behind(ctx, s, dir, q)
			return p, err
		}
		if again, err := d.evict(ctx, s, dir, q.Earlier(c)); !again {
			return nil, err
		}
	}
}

// reclaim removes what a claim reclaims under a folder, and does not ask whether it fits there.
func (d *Driver) reclaim(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) error {
	for {
		q, err := d.queueUnder(ctx, s, dir, c)
		if err != nil {
			return err
		}
		if again, err := d.evict(ctx, s, dir, q.Earlier(c)); !again {
			return err
		}
	}
}

// queueUnder returns the queue of a folder for a claim that is to enter. What the nodes hold is read for one that reclaims.
func (d *Driver) queueUnder(ctx context.Context, s *wire.Session, dir string, c *driver.Claim) (queue, error) {
	list := wire.List(dir, nil)
	if err := d.do(ctx, s, wire.Sync(dir), list); err != nil {
		return nil, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, d.refused(dir, list.Err)
	}
	q, odd := d.layoutOf(dir).newQueue(list.Children)
	d.strange(dir, odd)
	if !reclaims(c) {
		return q, nil
	}
	return q, d.read(ctx, s, dir, q)
}

func reclaims(c *driver.Claim) bool { return c.Reclaim && c.Owner != "" }

// evict removes the claims that are reclaimed. If one of them left just now, and is kept, all is to be looked at again.
func (d *Driver) evict(ctx context.Context, s *wire.Session, dir string, earlier queue) (again bool, err error) {
	if len(earlier) == 0 {
		return false, nil
	}
	deletes := make([]*wire.Call, len(earlier))
	for i, n := range earlier {
		deletes[i] = wire.DeleteAt(dir+"/"+n.name, n.read.Stat.Version)
	}
	if err := d.do(ctx, s, deletes...); err != nil {
		return false, err
	}
	for _, del := range deletes {
		if errors.Is(del.Err, wire.BadVersion) {
			return true, nil
		}
		if del.Err != nil && !errors.Is(del.Err, wire.NoNode) {
			return false, d.refused(del.Target(), del.Err)
		}
	}
	return false, nil
}

// evictSince removes what earlier runs made before the claim's own node, after precheck had looked. It returns the list of
// the children as it is then. Nobody comes in before a claim that has a place, so one that knows its ticket has none to
// remove.
func (d *Driver) evictSince(
	ctx context.Context, c *driver.Claim, lc *localClaim, list *wire.Call, proven bool,
) (*wire.Call, error) {
	for c.Ticket == 0 && reclaims(c) && list.Err == nil {
		q, _ := d.layoutOf(lc.dir).newQueue(list.Children)
		q = q[:max(0, find(q, d.nameOf(lc)))]
		if err := d.read(ctx, lc.session, lc.dir, q); err != nil {
			return list, err
		}
		earlier := q.Earlier(c)
		if len(earlier) == 0 {
			return list, nil
		}
		if _, err := d.evict(ctx, lc.session, lc.dir, earlier); err != nil {
			return list, err
		}
		list = wire.List(lc.dir, nil)
		calls := []*wire.Call{list}
		if proven {
			calls = d.proven(list)
		}
		if err := d.do(ctx, lc.session, calls...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// behind is the place of a try that did not enter a queue.
func (d *Driver) behind(ctx context.Context, s *wire.Session, dir string, q queue) (driver.Place, error) {
	if len(q) == 0 {
		return driver.Place{}, nil
	}
	if err := d.read(ctx, s, dir, q[:1]); err != nil {
		return driver.Place{}, err
	}
	p := q.Place(len(q))
	if q[0].read.Err != nil { // it has gone meanwhile
		p.Blocker = driver.ClaimInfo{}
	}
	return p, nil
}
