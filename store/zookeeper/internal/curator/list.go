package curator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// lineOf reads the line of a name on the present session.
func (sem *Semaphore) lineOf(ctx context.Context, dir string) (bundles, error) {
	s, err := sem.zk.Live()
	if err != nil {
		return nil, err
	}
	return sem.readLine(ctx, s, dir, false)
}

// readLine reads the line of a name: first the waiting claims, then the permits.
func (sem *Semaphore) readLine(ctx context.Context, s *wire.Session, dir string, proven bool) (bundles, error) {
	locks, leases := wire.List(dir+znode.LocksDir, nil), wire.List(dir+znode.LeasesDir, nil)
	calls := []*wire.Call{locks, leases}
	if proven {
		calls = sem.zk.Proven(calls...)
	}
	if err := sem.zk.Do(ctx, s, calls...); err != nil {
		return nil, err
	}
	for _, list := range []*wire.Call{locks, leases} {
		if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
			return nil, sem.zk.Refused(list.Target(), list.Err)
		}
	}
	l, odd := newBundles(locks.Children, leases.Children)
	sem.zk.Strange(dir, odd)
	return l, nil
}

// inLine reads the first node of each claim, and returns the claims as observers see them. It leaves out claims that went
// meanwhile.
func (sem *Semaphore) inLine(
	ctx context.Context, s *wire.Session, dir string, l bundles,
) (bundles, []driver.ClaimInfo, error) {
	var there bundles
	var list []driver.ClaimInfo
	holding := l.holding()
	for part := range slices.Chunk(l, ensemble.AtOnce) {
		gets := make([]*wire.Call, len(part))
		for i, b := range part {
			gets[i] = wire.Get(dir+b.nodes[0], nil)
		}
		if err := sem.zk.Do(ctx, s, gets...); err != nil {
			return nil, nil, err
		}
		for i, get := range gets {
			if errors.Is(get.Err, wire.NoNode) {
				holding--
				continue
			}
			if get.Err != nil {
				return nil, nil, sem.zk.Refused(get.Target(), get.Err)
			}
			there = append(there, part[i])
			list = append(list, part[i].standing(get, len(list) < holding))
		}
	}
	return there, list, nil
}

// standing returns a claim as an observer sees it, from the data of its first node.
func (b *bundle) standing(get *wire.Call, holds bool) driver.ClaimInfo {
	held := znode.ReadData(get.Data)
	first := held.FirstBy(&get.Stat)
	return driver.ClaimInfo{
		Ticket: first.Ticket, Weight: b.weight, Holds: holds, Left: held.Kept > 0, Record: held.Record,
		Since: max(0, time.Since(time.UnixMilli(first.Since))), // for people: no two clocks agree
	}
}

// placeIn returns the place behind others in a line.
func (sem *Semaphore) placeIn(ctx context.Context, dir string, l bundles, own int) (driver.Place, error) {
	if own < 0 {
		own = len(l)
	}
	p := driver.Place{Ahead: own}
	if own == 0 {
		return p, nil
	}
	s, err := sem.zk.Live()
	if err != nil {
		return p, err
	}
	_, standings, err := sem.inLine(ctx, s, dir, l[:1])
	if err == nil && len(standings) > 0 {
		p.Blocker = standings[0]
	}
	return p, err
}

// List returns the listings of semaphores.
func (sem *Semaphore) List(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error) {
	if err := sem.zk.Do(ctx, s, wire.Sync(sem.zk.Conf.Path)); err != nil {
		return nil, err
	}
	var all []driver.Listing
	for _, name := range names {
		dir, err := sem.zk.Path(name)
		if err != nil {
			return nil, err
		}
		l, err := sem.readLine(ctx, s, dir, false)
		if err != nil {
			return nil, err
		}
		l, standings, err := sem.inLine(ctx, s, dir, l)
		if err != nil {
			return nil, err
		}
		if len(l) == 0 {
			continue
		}
		capacity := l.capacity()
		if capacity == 0 {
			capacity = int64(len(l)) // at least this many
		}
		all = append(all, driver.Listing{Name: name, Capacity: capacity, Claims: standings})
	}
	return all, nil
}
