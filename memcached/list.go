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
// own; the error is [driver.ErrUnsupported] where it does not. Values there that are not stile's are left out.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		c, err := d.link.get(ctx)
		if err != nil {
			return nil, err
		}
		s, err := d.read(ctx, c, q.Name, d.key(q.Name))
		if err != nil {
			return nil, d.link.explain(err)
		}
		return s.listed(nil), nil
	}
	keys, err := d.link.keys(ctx, func(key string) bool { return d.mayBe(key, q.Prefix) })
	if err != nil {
		return nil, err
	}
	var all []driver.Listing
	for part := range slices.Chunk(keys, listAtOnce) {
		if all, err = d.list(ctx, all, part, q.Prefix); err != nil {
			return nil, err
		}
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

// list adds the queues under some keys whose names begin with a prefix.
func (d *Driver) list(ctx context.Context, all []driver.Listing, keys []string, prefix string) ([]driver.Listing, error) {
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
	for i, key := range keys {
		s := &snapshot{conn: c}
		err := s.take(&replies[i], key)
		switch {
		case errors.Is(err, driver.ErrForeign):
		case err != nil:
			return nil, d.link.explain(err)
		case strings.HasPrefix(s.name, prefix) && d.key(s.name) == key:
			all = s.listed(all)
		}
	}
	return all, nil
}

// listed adds the queue that was seen, if it has claims.
func (s *snapshot) listed(all []driver.Listing) []driver.Listing {
	claims := s.queue.List(s.micros())
	for i := range claims {
		claims[i] = shown(claims[i])
	}
	if len(claims) == 0 {
		return all
	}
	return append(all, driver.Listing{Name: s.name, Capacity: s.queue.Capacity, Claims: claims})
}
