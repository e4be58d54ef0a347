package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

func splitNode(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// lineOf reads the line of a name on the present session, and the count by which a claim goes that is in it, unless that
// is nil.
func (d *Driver) lineOf(ctx context.Context, dir string, count *wire.Call) (line, error) {
	s, err := d.live()
	if err != nil {
		return nil, err
	}
	return d.readLine(ctx, s, dir, false, count)
}

// readLine reads the line of a name: first who waits, then who has permits. A count that is not asked for is read where
// the line has claims that go by it.
func (d *Driver) readLine(ctx context.Context, s *wire.Session, dir string, proven bool, count *wire.Call) (line, error) {
	locks, leases := wire.List(dir+locksDir, nil), wire.List(dir+leasesDir, nil)
	calls := []*wire.Call{locks, leases}
	if count != nil {
		calls = append(calls, count)
	}
	if proven {
		calls = d.proven(calls...)
	}
	if err := d.do(ctx, s, calls...); err != nil {
		return nil, err
	}
	for _, list := range []*wire.Call{locks, leases} {
		if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
			return nil, d.refused(list.Target(), list.Err)
		}
	}
	l, odd := newLine(locks.Children, leases.Children)
	d.strange(dir, odd)
	if l.capacity() != byCount {
		return l, nil
	}
	if count == nil {
		count = wire.Get(d.countAt(dir), nil)
		if err := d.do(ctx, s, count); err != nil {
			return nil, err
		}
	}
	n, _ := d.countIn(count) // if there is none, nobody comes to hold who does not
	l.countBy(n)
	return l, nil
}

// inLine reads the first node of each claim, and tells what observers see. Claims that went meanwhile are left out.
func (d *Driver) inLine(ctx context.Context, s *wire.Session, dir string, l line) (line, []driver.ClaimInfo, error) {
	var there line
	var list []driver.ClaimInfo
	holding := l.holding()
	for part := range slices.Chunk(l, atOnce) {
		gets := make([]*wire.Call, len(part))
		for i, b := range part {
			gets[i] = wire.Get(dir+b.nodes[0], nil)
		}
		if err := d.do(ctx, s, gets...); err != nil {
			return nil, nil, err
		}
		for i, get := range gets {
			if errors.Is(get.Err, wire.NoNode) {
				holding--
				continue
			}
			if get.Err != nil {
				return nil, nil, d.refused(get.Target(), get.Err)
			}
			there = append(there, part[i])
			list = append(list, part[i].standing(get, len(list) < holding))
		}
	}
	return there, list, nil
}

// standing is a claim as an observer sees it, from what its first node holds.
func (b *bundle) standing(get *wire.Call, holds bool) driver.ClaimInfo {
	held := readData(get.Data)
	seen := driver.ClaimInfo{
		Ticket: get.Stat.Czxid, Weight: b.weight, Holds: holds, Left: held.Kept > 0, Record: held.Record,
		Since: max(0, time.Since(time.UnixMilli(get.Stat.Ctime))), // for people: no two clocks agree
	}
	if held.Ticket != 0 {
		seen.Ticket = held.Ticket
	}
	return seen
}

// placeIn is the place behind others in a line.
func (d *Driver) placeIn(ctx context.Context, parted *parted, l line, own int) (driver.Place, error) {
	if own < 0 {
		own = len(l)
	}
	p := driver.Place{Ahead: own}
	if own == 0 && parted.counted == "" {
		return p, nil
	}
	s, err := d.live()
	if err != nil {
		return p, err
	}
	if own == 0 {
		p.Blocker.Record, err = d.tooFew(ctx, s, parted)
		return p, err
	}
	_, standings, err := d.inLine(ctx, s, parted.dir, l[:1])
	if err == nil && len(standings) > 0 {
		p.Blocker = standings[0]
	}
	return p, err
}

// tooFew returns the record that says in the place of a holder's that the count is too low for a claim, and who set it.
func (d *Driver) tooFew(ctx context.Context, s *wire.Session, p *parted) (string, error) {
	l := driver.Listing{Capacity: byCount}
	if err := d.listCount(ctx, s, p.dir, &l); err != nil || l.Capacity >= int64(p.size) {
		return "", err // it has become higher meanwhile
	}
	why := fmt.Sprintf("the name's count is %d", l.Capacity)
	if p.size > 1 {
		why += fmt.Sprintf(", and %d permits are asked for", p.size)
	}
	if l.Record != "" {
		why += fmt.Sprintf("; it was set by %v", record.Read(l.Record))
	}
	return record.Nobody(why), nil
}

// semaphoreListings are listings of semaphores.
func (d *Driver) semaphoreListings(ctx context.Context, s *wire.Session, names []string, count bool) ([]driver.Listing, error) {
	if err := d.do(ctx, s, wire.Sync(d.conf.Path)); err != nil {
		return nil, err
	}
	var all []driver.Listing
	for _, name := range names {
		dir, err := d.path(name)
		if err != nil {
			return nil, err
		}
		l, err := d.readLine(ctx, s, dir, false, nil)
		if err != nil {
			return nil, err
		}
		l, standings, err := d.inLine(ctx, s, dir, l)
		if err != nil {
			return nil, err
		}
		listing := driver.Listing{Name: name, Capacity: l.capacity(), Claims: standings}
		if listing.Capacity <= 0 && (count || len(l) > 0) {
			if err := d.listCount(ctx, s, dir, &listing); err != nil {
				return nil, err
			}
		}
		if len(l) > 0 || listing.Counted {
			all = append(all, listing)
		}
	}
	return all, nil
}

// newData is what the node of a claim, or of a part of it, is to hold.
func (d *Driver) newData(c *driver.Claim) data {
	held := newData(c)
	if d.layout == semaphoreLayout {
		d.mu.Lock()
		defer d.mu.Unlock()
		whole, _ := cutPart(c.ID)
		if p := d.parted[whole]; p != nil {
			held.Ticket = p.ticket
		}
	}
	return held
}
