package memcached

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// listAtOnce is how many names are read in one request.
const listAtOnce = 64

// List is one round trip for one name. For a prefix the server lists its keys, all that it has, on a connection of its
// own; the error is [driver.ErrUnsupported] where it does not.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		return d.list(ctx, []string{d.key(q.Name)}, func(name string) bool { return name == q.Name })
	}
	keys, err := d.link.keys(ctx, func(key string) bool { return d.mayBe(key, q.Prefix) })
	if err != nil {
		return nil, err
	}
	var all []driver.Listing
	for part := range slices.Chunk(keys, listAtOnce) {
		list, err := d.list(ctx, part, func(name string) bool { return strings.HasPrefix(name, q.Prefix) })
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b driver.Listing) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// mayBe reports whether a key may be that of a name that begins with a prefix. A long name's does not tell.
func (d *Driver) mayBe(key, prefix string) bool {
	rest, ours := strings.CutPrefix(key, d.prefix)
	if !ours || strings.HasPrefix(rest, hashed) {
		return ours
	}
	name, err := driver.DecodeName(rest)
	return err == nil && strings.HasPrefix(name, prefix)
}

// list returns the queues under some keys, of the names that are wanted. What is not stile's is left out, if there are
// more keys than one.
func (d *Driver) list(ctx context.Context, keys []string, wanted func(name string) bool) ([]driver.Listing, error) {
	c, err := d.link.get(ctx)
	if err != nil {
		return nil, err
	}
	var request []byte
	for _, key := range keys {
		request = appendGet(request, key)
	}
	replies, err := c.do(ctx, request, len(keys))
	if err != nil {
		return nil, d.link.explain(err)
	}
	var all []driver.Listing
	for i, key := range keys {
		s := &snapshot{conn: c}
		err := s.take(&replies[i], key)
		if errors.Is(err, driver.ErrForeign) && len(keys) > 1 {
			continue
		}
		if err != nil {
			return nil, d.link.explain(err)
		}
		claims := s.queue.List(s.micros())
		for j := range claims {
			claims[j] = shown(claims[j])
		}
		if len(claims) > 0 && wanted(s.name) && d.key(s.name) == key {
			all = append(all, driver.Listing{Name: s.name, Capacity: s.queue.Capacity, Claims: claims})
		}
	}
	return all, nil
}
