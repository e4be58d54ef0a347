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
		if s, err = d.live(); err != nil {
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
		listings, err := d.listings(ctx, s, part)
		if err != nil {
			return nil, err
		}
		all = append(all, listings...)
	}
	return all, nil
}

// names returns the names below the prefix that begin with a text, in order. Some may have no claims.
func (d *Driver) names(ctx context.Context, s *wire.Session, prefix string) ([]string, error) {
	at := strings.LastIndexByte(d.prefix, '/')
	dir, begin := d.prefix[:at], d.prefix[at+1:]
	if dir == "" {
		dir = "/"
	}
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
	var names []string
	for _, child := range list.Children {
		rest, ok := strings.CutPrefix(child, begin)
		name, err := driver.DecodeName(rest)
		if _, reserved := d.path(name); ok && err == nil && reserved == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// listings returns the queues of names, except empty ones.
func (d *Driver) listings(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error) {
	if d.layout == semaphoreLayout {
		return d.semaphoreListings(ctx, s, names)
	}
	var lists []*wire.Call
	calls := []*wire.Call{wire.Sync(d.conf.Path)}
	for _, name := range names {
		dir, err := d.path(name)
		if err != nil {
			return nil, err
		}
		lists = append(lists, wire.List(dir, nil))
	}
	if err := d.do(ctx, s, append(calls, lists...)...); err != nil {
		return nil, err
	}
	var all []driver.Listing
	for i, list := range lists {
		l := driver.Listing{Name: names[i]}
		q, err := d.standing(ctx, s, list)
		if err != nil {
			return nil, err
		}
		if l.Capacity, l.Claims = q.Capacity(), q.Standings(); len(q) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

// standing returns the claims of a list of children that still exist, in the order of their tickets, with their nodes'
// data.
func (d *Driver) standing(ctx context.Context, s *wire.Session, list *wire.Call) (there queue, err error) {
	dir := list.Target()
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, d.refused(dir, list.Err)
	}
	q, odd := d.layoutOf(dir).newQueue(list.Children)
	d.strange(dir, odd)
	for part := range slices.Chunk(q, atOnce) {
		if err := d.read(ctx, s, dir, part); err != nil {
			return nil, err
		}
		for _, n := range part {
			if n.read.Err != nil && !errors.Is(n.read.Err, wire.NoNode) {
				return nil, d.refused(n.read.Target(), n.read.Err)
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
	s, err := d.live()
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	standing, err := d.breaks(ctx, s, b)
	return standing, asking(err)
}

func (d *Driver) breaks(ctx context.Context, s *wire.Session, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	dir, err := d.path(b.Name)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	if d.layout == semaphoreLayout {
		return d.breakParted(ctx, s, dir, b)
	}
	list := wire.List(dir, nil)
	if err := d.do(ctx, s, d.proven(list)...); err != nil {
		return driver.ClaimInfo{}, err
	}
	q, err := d.standing(ctx, s, list)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	for i, standing := range q.Standings() {
		if b.Ticket != 0 && standing.Ticket != b.Ticket {
			continue
		}
		if b.Ask {
			return standing, d.ask(ctx, s, &standing, q[i].read)
		}
		del := wire.Delete(dir + "/" + q[i].name)
		if err := d.do(ctx, s, del); err != nil {
			return driver.ClaimInfo{}, err
		}
		if errors.Is(del.Err, wire.NoNode) {
			break
		}
		return standing, d.undeleted(del.Target(), del.Err)
	}
	return driver.ClaimInfo{}, driver.ErrGone
}

// read reads the nodes of claims, and puts the answers into the queue.
func (d *Driver) read(ctx context.Context, s *wire.Session, dir string, q queue) error {
	gets := make([]*wire.Call, len(q))
	for i := range q {
		gets[i] = wire.Get(dir+"/"+q[i].name, nil)
	}
	if len(gets) == 0 {
		return nil
	}
	if err := d.do(ctx, s, gets...); err != nil {
		return err // an answer may still arrive, and would be written then
	}
	for i := range q {
		q[i].read = gets[i]
	}
	return nil
}
