package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// scanAtOnce is how many keys the server looks at in one step of a search.
const scanAtOnce = 1000

// List is one round trip for one name. For a prefix it looks through all keys of all primaries, in many short steps,
// and leaves out what is not stile's.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		l, err := d.list(ctx, q.Name)
		if err != nil || len(l.Claims) == 0 {
			return nil, err
		}
		return []driver.Listing{l}, nil
	}
	names, err := d.names(ctx, q.Prefix)
	if err != nil {
		return nil, err
	}
	var all []driver.Listing
	for _, name := range names {
		l, err := d.list(ctx, name)
		if errors.Is(err, driver.ErrForeign) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(l.Claims) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

func (d *Driver) list(ctx context.Context, name string) (driver.Listing, error) {
	a, err := d.run(ctx, d.scripts.list, d.key(name), "", []string{""})
	if err != nil {
		return driver.Listing{}, err
	}
	return driver.Listing{Name: name, Capacity: a.number(0), Claims: a.standings(1)}, nil
}

// names returns the names in use that begin with a prefix, in order.
func (d *Driver) names(ctx context.Context, prefix string) ([]string, error) {
	if err := d.connected(ctx, d.key(prefix)); err != nil {
		return nil, d.explain(ctx, err)
	}
	var names []string
	for _, node := range d.client.Nodes() {
		if role, err := node.Do(ctx, node.B().Role().Build()).ToArray(); err == nil && len(role) > 0 {
			if kind, _ := role[0].ToString(); kind != "master" {
				continue
			}
		}
		if err := d.scan(ctx, node, func(name string) {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}); err != nil {
			return nil, d.explain(ctx, err)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (d *Driver) scan(ctx context.Context, node rueidis.Client, found func(name string)) error {
	var cursor uint64
	for {
		step := node.B().Scan().Cursor(cursor).Match(literal(d.prefix) + "{*}").Count(scanAtOnce).Build()
		page, err := node.Do(ctx, step).AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range page.Elements {
			if name, err := driver.DecodeName(strings.TrimSuffix(key[len(d.prefix)+1:], "}")); err == nil {
				found(name)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// literal makes a text match itself in a pattern.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace
