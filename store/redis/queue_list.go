package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// List is one round trip for one name. For a prefix it scans all keys of all primaries, in many short steps, and leaves out
// foreign keys.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		a, err := d.conn.Run(ctx, d.scripts.list, d.key(q.Name), "")
		claims := a.Standings(1)
		if err != nil || len(claims) == 0 {
			return nil, err
		}
		return []driver.Listing{{Name: q.Name, Capacity: a.Number(0), Claims: claims}}, nil
	}
	names, err := d.names(ctx, q.Prefix)
	if err != nil {
		return nil, err
	}
	var all []driver.Listing
	requests := make([]conn.Request, len(names))
	for i, name := range names {
		requests[i] = conn.Request{Key: d.key(name)}
	}
	d.conn.RunAll(ctx, d.scripts.list, requests, func(i int, a conn.Answer, e error) {
		switch claims := a.Standings(1); {
		case e != nil && !errors.Is(e, driver.ErrForeign):
			err = e
		case len(claims) > 0:
			all = append(all, driver.Listing{Name: names[i], Capacity: a.Number(0), Claims: claims})
		}
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// names returns the names in use that begin with a prefix, in order.
func (d *Driver) names(ctx context.Context, prefix string) ([]string, error) {
	keys, err := d.conn.Keys(ctx, d.key(prefix), conn.Literal(d.prefix)+"{*}")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		encoded := strings.TrimSuffix(key[len(d.prefix)+1:], "}")
		if name, err := driver.DecodeName(encoded); err == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
