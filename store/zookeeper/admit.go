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
	q, odd := d.layoutOf(dir).newQueue(list.Children)
	d.strange(dir, odd)
	rest, earlier, err := d.reclaimed(ctx, s, dir, c, q)
	if err != nil {
		return nil, err
	}
	if have := rest.capacity(); have > 0 && c.Capacity > 0 && have != c.Capacity {
		return nil, &driver.CapacityError{Have: have, Want: c.Capacity}
	}
	if c.Try && !rest.fits(c.Weight, c.Capacity) {
		p, err := d.behind(ctx, s, dir, q)
		return &p, err
	}
	again, err := d.evict(ctx, s, earlier)
	if again {
		return d.precheck(ctx, s, dir, c)
	}
	return nil, err
}

func reclaims(c *driver.Claim) bool { return c.Reclaim && c.Owner != "" }

// reclaimed parts a queue into the claims that a claim reclaims, with calls that remove them, and the rest.
func (d *Driver) reclaimed(
	ctx context.Context, s *wire.Session, dir string, c *driver.Claim, q queue,
) (rest queue, earlier []*wire.Call, err error) {
	if !reclaims(c) || len(q) == 0 {
		return q, nil, nil
	}
	gets, err := d.read(ctx, s, dir, q)
	if err != nil {
		return nil, nil, err
	}
	for i, get := range gets {
		if e := readData(get.Data); get.Err == nil && e.Owner == c.Owner && e.Client != c.Client && e.Kept == 0 {
			earlier = append(earlier, wire.DeleteAt(dir+"/"+q[i].name, get.Stat.Version))
		} else {
			rest = append(rest, q[i])
		}
	}
	return rest, earlier, nil
}

// evict removes the claims that are reclaimed. If one of them left just now, and is kept, all is to be looked at again.
func (d *Driver) evict(ctx context.Context, s *wire.Session, earlier []*wire.Call) (again bool, err error) {
	if len(earlier) == 0 {
		return false, nil
	}
	if err := d.do(ctx, s, earlier...); err != nil {
		return false, err
	}
	for _, del := range earlier {
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
	for c.Ticket == 0 && list.Err == nil {
		q, _ := d.layoutOf(lc.dir).newQueue(list.Children)
		_, earlier, err := d.reclaimed(ctx, lc.session, lc.dir, c, q[:max(0, q.find(d.nameOf(lc)))])
		if err != nil || len(earlier) == 0 {
			return list, err
		}
		if _, err := d.evict(ctx, lc.session, earlier); err != nil {
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
