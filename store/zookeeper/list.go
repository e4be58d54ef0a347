package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// atOnce is how many nodes are read in one request.
const atOnce = 256

// List takes three round trips for one name. For a prefix it does the same for each name that begins with it.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	var (
		all []driver.Listing
		err error
	)
	for range attempts { // using a session shows that it is over
		var s *wire.Session
		if s, err = d.zk.live(); err != nil {
			return nil, err
		}
		if all, err = d.list(ctx, s, q); !errors.Is(err, driver.ErrSession) {
			return all, err
		}
	}
	return nil, asking(err)
}

func (d *Driver) list(ctx context.Context, s *wire.Session, q *driver.Query) ([]driver.Listing, error) {
	var err error
	names := []string{q.Name}
	if q.Name == "" {
		if names, err = d.names(ctx, s, q.Prefix); err != nil {
			return nil, err
		}
	}
	var all []driver.Listing
	for part := range slices.Chunk(names, atOnce) {
		listings, err := d.recipe.listings(ctx, s, part)
		if err != nil {
			return nil, err
		}
		all = append(all, listings...)
	}
	return all, nil
}

// names returns the names below the prefix that begin with a text, in order. Some may have no claims.
func (d *Driver) names(ctx context.Context, s *wire.Session, prefix string) ([]string, error) {
	at := strings.LastIndexByte(d.zk.prefix, '/')
	dir, begin := d.zk.prefix[:at], d.zk.prefix[at+1:]
	if dir == "" {
		dir = "/"
	}
	list := wire.List(dir, nil)
	if err := d.zk.do(ctx, s, wire.Sync(dir), list); err != nil {
		return nil, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, d.zk.refused(dir, list.Err)
	}
	var names []string
	for _, child := range list.Children {
		rest, ok := strings.CutPrefix(child, begin)
		name, err := driver.DecodeName(rest)
		if _, reserved := d.zk.path(name); ok && err == nil && reserved == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// standing returns the claims of a list of children that still exist, in the order of their tickets, with their nodes'
// data.
func (f *folder) standing(ctx context.Context, list *wire.Call) (there queue, err error) {
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, f.zk.refused(f.dir, list.Err)
	}
	q, odd := f.layout.newQueue(list.Children)
	f.zk.strange(f.dir, odd)
	for part := range slices.Chunk(q, atOnce) {
		if err := f.read(ctx, part); err != nil {
			return nil, err
		}
		for _, n := range part {
			if n.read.Err != nil && !errors.Is(n.read.Err, wire.NoNode) {
				return nil, f.zk.refused(n.read.Target(), n.read.Err)
			}
			if n.read.Err == nil {
				there = append(there, n)
			}
		}
	}
	slices.SortFunc(there, func(a, b node) int { return cmp.Compare(ticketOf(a.read), ticketOf(b.read)) })
	return there, nil
}

// Break is [driver.Breaker]. It reads the claim and then deletes it. So the answer says that the claim waited, even if it
// came to hold in between.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	s, err := d.zk.live()
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	dir, err := d.zk.path(b.Name)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	standing, err := d.recipe.breaks(ctx, s, dir, b)
	return standing, asking(err)
}

// read reads the nodes of claims, and puts the answers into the queue.
func (f *folder) read(ctx context.Context, q queue) error {
	gets := make([]*wire.Call, len(q))
	for i := range q {
		gets[i] = wire.Get(f.dir+"/"+q[i].name, nil)
	}
	if len(gets) == 0 {
		return nil
	}
	if err := f.zk.do(ctx, f.session, gets...); err != nil {
		return err // an answer may still arrive, and would be written then
	}
	for i := range q {
		q[i].read = gets[i]
	}
	return nil
}
