package zookeeper

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// List takes two round trips for one name, three in the layout of the semaphore, and one more for each 256 claims beyond the
// first 256. For a prefix it first lists the names, and then reads the nodes of each name that begins with the prefix.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	var (
		all []driver.Listing
		err error
	)
	for range ensemble.Attempts { // only a request shows that the session is over
		var s *wire.Session
		if s, err = d.zk.Live(); err != nil {
			return nil, err
		}
		if all, err = d.list(ctx, s, q); !errors.Is(err, driver.ErrSession) {
			return all, err
		}
	}
	return nil, ensemble.Asking(err)
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
	for part := range slices.Chunk(names, ensemble.AtOnce) {
		listings, err := d.recipe.List(ctx, s, part)
		if err != nil {
			return nil, err
		}
		all = append(all, listings...)
	}
	return all, nil
}

// names returns, in order, the names that begin with a prefix. Some may have no claims.
func (d *Driver) names(ctx context.Context, s *wire.Session, prefix string) ([]string, error) {
	at := strings.LastIndexByte(d.zk.Prefix, '/')
	dir, begin := d.zk.Prefix[:at], d.zk.Prefix[at+1:]
	if dir == "" {
		dir = "/"
	}
	list := wire.List(dir, nil)
	if err := d.zk.Do(ctx, s, wire.Sync(dir), list); err != nil {
		return nil, err
	}
	if errors.Is(list.Err, wire.NoNode) {
		return nil, nil
	}
	if list.Err != nil {
		return nil, d.zk.Refused(dir, list.Err)
	}
	var names []string
	for _, child := range list.Children {
		rest, ok := strings.CutPrefix(child, begin)
		name, err := driver.DecodeName(rest)
		if _, reserved := d.zk.Path(name); ok && err == nil && reserved == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Break implements [driver.Breaker]. It reads the claim, and then deletes its nodes. If the claim comes to hold in between,
// the answer still says that it waits.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	s, err := d.zk.Live()
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	dir, err := d.zk.Path(b.Name)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	standing, err := d.recipe.Break(ctx, s, dir, b)
	return standing, ensemble.Asking(err)
}
