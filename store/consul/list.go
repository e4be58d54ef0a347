package consul

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// List sends one request for one name, and two for a prefix. It leaves out keys that are not stile's.
func (d *Driver) List(ctx context.Context, l *driver.Query) ([]driver.Listing, error) {
	if l.Name != "" {
		q, err := d.look(ctx, l.Name)
		if err != nil || len(q.entries) == 0 {
			return nil, err
		}
		return []driver.Listing{listing(l.Name, q)}, nil
	}
	prefix := driver.EncodeName(l.Prefix)
	if l.Prefix == "." || l.Prefix == ".." || l.Prefix == "" {
		prefix = "" // the encoding of such a name has its own beginning
	}
	pairs, _, err := d.agent.read(ctx, d.prefix+prefix, true, 0, 0)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		long, _, err := d.agent.read(ctx, d.prefix+hashed, true, 0, 0)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, long...)
	}
	var all []driver.Listing
	for folder, keys := range byFolder(d.prefix, pairs) {
		name, ok := nameOf(folder[len(d.prefix):], keys)
		if !ok || !strings.HasPrefix(name, l.Prefix) {
			continue
		}
		if q := parse(name, folder, keys); len(q.entries) > 0 {
			all = append(all, listing(name, q))
		}
	}
	slices.SortFunc(all, func(a, b driver.Listing) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// byFolder groups keys by the folder of their name.
func byFolder(prefix string, pairs []pair) map[string][]pair {
	folders := map[string][]pair{}
	for _, p := range pairs {
		rest, ok := strings.CutPrefix(p.Key, prefix)
		if i := strings.IndexByte(rest, '/'); ok && i > 0 {
			folder := prefix + rest[:i+1]
			folders[folder] = append(folders[folder], p)
		}
	}
	return folders
}

// nameOf returns the name whose keys are in a folder. It is false for a folder that is not stile's.
func nameOf(folder string, keys []pair) (string, bool) {
	text := strings.TrimSuffix(folder, "/")
	if !strings.HasPrefix(text, hashed) {
		name, err := driver.DecodeName(text)
		return name, err == nil
	}
	for _, p := range keys {
		var v value
		if p.Flags == claimFlags && json.Unmarshal(p.Value, &v) == nil && v.Name != "" {
			return v.Name, true
		}
	}
	return "", false
}

func listing(name string, q *queue) driver.Listing {
	l := driver.Listing{Name: name, Capacity: q.entries.Capacity()}
	for i := range q.entries {
		l.Claims = append(l.Claims, q.standing(i))
	}
	return l
}
