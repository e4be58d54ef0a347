package sqlrow

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A standingRow is a row whose lock is taken.
type standingRow struct {
	name string
	driver.ClaimInfo

	end func(ctx context.Context) (bool, error) // frees the row if it is unchanged
}

// List is [driver.Lister]. It shows the locks of other programs too, each with the text of the holder's column. In
// tb_distributed_lock a claim is as old as its last renewal.
func (d *Driver) List(ctx context.Context, q *driver.Query) (list []driver.Listing, err error) {
	err = d.call(ctx, func(ctx context.Context) error {
		rows, err := d.rows.standing(ctx, q.Name)
		for _, r := range rows {
			if driver.CheckName(r.name) == nil && strings.HasPrefix(r.name, q.Prefix) {
				claims := []driver.ClaimInfo{r.ClaimInfo}
				list = append(list, driver.Listing{Name: r.name, Capacity: driver.All, Claims: claims})
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Break is [driver.Breaker]. It also frees a lock of another program, which does not notice this.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (s driver.ClaimInfo, err error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	err = d.call(ctx, func(ctx context.Context) error {
		rows, err := d.rows.standing(ctx, b.Name)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if b.Ticket != 0 && b.Ticket != r.Ticket {
				continue
			}
			if had, err := r.end(ctx); err != nil || had {
				s = r.ClaimInfo
				return err
			}
		}
		return driver.ErrGone
	})
	return s, err
}

// each calls f with each row of a query.
func each(ctx context.Context, db *sql.DB, statement string, args []any, f func(*sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
		driver.Heard(ctx, 1)
	}
	return rows.Err()
}
