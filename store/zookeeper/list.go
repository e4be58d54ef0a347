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

// List takes three round trips for one name. For a prefix it does the same for each name that begins with it.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	var (
		all []driver.Listing
		err error
	)
	for range ensemble.Attempts { // using a session shows that it is over
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
		listings, err := d.recipe.Listings(ctx, s, part)
		if err != nil {
			return nil, err
		}
		all = append(all, listings...)
	}
	return all, nil
}

// names returns the names below the prefix that begin with a text, in order. Some may have no claims.
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

// Break is [driver.Breaker]. It reads the claim and then deletes it. So the answer says that the claim waited, even if it
// came to hold in between.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	s, err := d.zk.Live()
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	dir, err := d.zk.Path(b.Name)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	standing, err := d.recipe.Breaks(ctx, s, dir, b)
	return standing, ensemble.Asking(err)
}
