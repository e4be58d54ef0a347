package sqldb

import (
	"context"
	"strings"

	"github.com/stilelock/stile/driver"
)

// List is [driver.Lister.List].
func (d *Driver) List(ctx context.Context, query *driver.Query) ([]driver.Listing, error) {
	if err := d.moved(); err != nil {
		return nil, err
	}
	if err := d.take(ctx, d.read); err != nil {
		return nil, err
	}
	defer d.read.give()
	var list []driver.Listing
	err := d.patiently(ctx, func() (err error) {
		list, err = d.list(query)
		return err
	})
	return list, err
}

// list reads the queues that a query selects. The read session must be taken.
func (d *Driver) list(query *driver.Query) ([]driver.Listing, error) {
	m, err := d.readMeta(d.read)
	if err != nil || m.boot != d.boot {
		return nil, err
	}
	if query.Name != "" {
		q, err := readQueue(d.read, query.Name)
		return appendListing(nil, query.Name, q, d.now()), err
	}
	var (
		list []driver.Listing
		name string
		q    = &driver.Queue{}
	)
	err = d.read.rows("queues", query.Prefix, func(scan func(...any) error) (bool, error) {
		next := &driver.Queue{}
		n, err := scanEntry(next, scan)
		if err != nil || !strings.HasPrefix(n, query.Prefix) {
			return false, err
		}
		if n != name {
			list = appendListing(list, name, q, d.now())
			name, q = n, &driver.Queue{Capacity: next.Capacity}
		}
		q.Entries = append(q.Entries, next.Entries...)
		return true, nil
	})
	return appendListing(list, name, q, d.now()), err
}

func appendListing(list []driver.Listing, name string, q *driver.Queue, now int64) []driver.Listing {
	if claims := q.List(now); len(claims) > 0 {
		list = append(list, driver.Listing{Name: name, Capacity: q.Capacity, Claims: claims})
	}
	return list
}
