package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// scanAtOnce is how many keys the server looks at in one step of a search.
const scanAtOnce = 1000

// List is one round trip for one name. For a prefix it looks through all keys of all primaries, in many short steps,
// and leaves out what is not stile's.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		a, err := d.run(ctx, d.scripts.list, request{key: d.key(q.Name), args: []string{""}})
		claims := a.standings(1)
		if err != nil || len(claims) == 0 {
			return nil, err
		}
		return []driver.Listing{{Name: q.Name, Capacity: a.number(0), Claims: claims}}, nil
	}
	names, err := d.names(ctx, q.Prefix)
	if err != nil {
		return nil, err
	}
	var all []driver.Listing
	requests := make([]request, len(names))
	for i, name := range names {
		requests[i] = request{key: d.key(name), args: []string{""}}
	}
	d.runAll(ctx, d.scripts.list, requests, func(i int, a answer, e error) {
		switch claims := a.standings(1); {
		case e != nil && !errors.Is(e, driver.ErrForeign):
			err = e
		case len(claims) > 0:
			all = append(all, driver.Listing{Name: names[i], Capacity: a.number(0), Claims: claims})
		}
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// names returns the names in use that begin with a prefix, in order.
func (d *Driver) names(ctx context.Context, prefix string) ([]string, error) {
	keys, err := d.keys(ctx, d.key(prefix), literal(d.prefix)+"{*}")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		if name, err := driver.DecodeName(strings.TrimSuffix(key[len(d.prefix)+1:], "}")); err == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// keys returns the keys that match a pattern, on any server, in order. Like says where a key like them would be.
func (d *Driver) keys(ctx context.Context, like, pattern string) ([]string, error) {
	if err := d.connected(ctx, like); err != nil {
		return nil, d.explain(ctx, err)
	}
	var keys []string
	for _, node := range d.client.Nodes() {
		if role, err := node.Do(ctx, node.B().Role().Build()).ToArray(); err == nil && len(role) > 0 {
			if kind, _ := role[0].ToString(); kind != "master" {
				continue
			}
		}
		var cursor uint64
		for more := true; more; more = cursor != 0 {
			step := node.B().Scan().Cursor(cursor).Match(pattern).Count(scanAtOnce).Build()
			page, err := node.Do(ctx, step).AsScanEntry()
			if err != nil {
				return nil, d.explain(ctx, err)
			}
			keys = append(keys, page.Elements...)
			cursor = page.Cursor
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// literal makes a text match itself in a pattern.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace
