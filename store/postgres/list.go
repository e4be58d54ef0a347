package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
)

// List is one statement.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	statement, args := d.statements.list, []any{[]byte(q.Prefix), after(q.Prefix)}
	if q.Name != "" {
		statement, args = d.statements.queue, []any{[]byte(q.Name)}
	}
	var (
		list []driver.Listing
		name string
		part driver.Queue
		now  int64
	)
	flush := func() {
		if claims := part.List(now); len(claims) > 0 {
			list = append(list, driver.Listing{Name: name, Capacity: part.Capacity, Claims: claims})
		}
		part = driver.Queue{}
	}
	err := d.link.Query(ctx, statement, args, func(rows pgx.Rows) error {
		n, e, capacity, at, err := scanEntry(rows)
		if err != nil {
			return err
		}
		if now == 0 {
			now = at
		}
		if n != name {
			flush()
			name = n
		}
		// Expired entries do not count, as if the next change had removed them.
		part.Capacity, part.Entries = capacity, append(part.Entries, e)
		part.Expire(now)
		return nil
	})
	flush()
	if err != nil {
		return nil, err
	}
	return list, nil
}

// scanEntry reads a row of a listing. Of the claim's texts it has only the record.
func scanEntry(rows pgx.Rows) (name string, e driver.Entry, capacity, now int64, err error) {
	var n, record []byte
	err = rows.Scan(&now, &n, &e.Ticket, &e.Weight, &capacity, &e.Since, &e.Ends, &e.Delay, &e.Notified, &e.Left, &record)
	e.Record = string(record)
	return string(n), e, capacity, now, err
}

// after returns the first text, in order of bytes, that is behind all texts with a prefix; nil if there is none.
func after(prefix string) []byte {
	for b := []byte(prefix); len(b) > 0; b = b[:len(b)-1] {
		if last := len(b) - 1; b[last] < 0xff {
			b[last]++
			return b
		}
	}
	return nil
}
