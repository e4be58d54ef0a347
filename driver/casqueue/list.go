package casqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// List is [driver.Lister.List]. With a prefix, it leaves out names whose values are not stile's.
func (d *Driver) List(ctx context.Context, query *driver.Query) ([]driver.Listing, error) {
	if query.Name != "" {
		s, err := d.read(ctx, query.Name, nil)
		if err != nil {
			return nil, err
		}
		return d.listed(nil, query.Name, s), nil
	}
	names, err := d.sorted(ctx, query.Prefix)
	if err != nil {
		return nil, err
	}
	seen, errs := d.lookAll(ctx, names)
	var list []driver.Listing
	for i, name := range names {
		switch err := errs[i]; {
		case errors.Is(err, driver.ErrForeign):
		case err != nil:
			return nil, err
		default:
			list = d.listed(list, name, seen[i])
		}
	}
	return list, nil
}

// lookAll is look for many names.
func (d *Driver) lookAll(ctx context.Context, names []string) ([]*sight, []error) {
	seen, errs := make([]*sight, len(names)), make([]error, len(names))
	if d.many == nil {
		work.Each(len(names), d.atOnce, func(i int) {
			if seen[i], errs[i] = d.read(ctx, names[i], nil); errs[i] == nil {
				driver.Heard(ctx, 1)
			}
		})
		return seen, errs
	}
	values, errs := d.many.GetMany(ctx, names)
	for i := range names {
		if errs[i] = driver.NotYet(errs[i]); errs[i] == nil {
			seen[i], errs[i] = sightOf(names[i], &values[i], nil)
		}
	}
	return seen, errs
}

// sorted returns the names with a prefix, in order.
func (d *Driver) sorted(ctx context.Context, prefix string) ([]string, error) {
	if err := d.ended(ctx); err != nil {
		return nil, err
	}
	names, err := d.store.Names(ctx, prefix)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// listed adds the queue of a name, if it has claims.
func (d *Driver) listed(list []driver.Listing, name string, s *sight) []driver.Listing {
	claims := s.queue.List(s.now)
	if len(claims) == 0 {
		return list
	}
	for i := range claims {
		claims[i] = d.shown(claims[i])
	}
	return append(list, driver.Listing{Name: name, Capacity: s.queue.Capacity, Claims: claims})
}

// The number of names in one call to a [Store] or an [Exchanger].
const (
	calmAtOnce  = 16
	briskAtOnce = 256
)
