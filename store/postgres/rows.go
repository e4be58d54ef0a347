package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
	"github.com/stilelock/stile/store/sqlrow"
)

// rowLayouts are tables of other libraries, by the word for them in an address.
var rowLayouts = map[string]sqlrow.Layout{"shedlock": sqlrow.ShedLock, "tb_distributed_lock": sqlrow.MethodLock}

// A rows is a driver with one row per lock, and the link that it owns.
type rows struct {
	*sqlrow.Driver
	db   *sql.DB
	link *link.Link
}

// openRows opens a table of another library; see package sqlrow.
func openRows(ctx context.Context, a *driver.Address, word string) (driver.Driver, error) {
	layout, ok := rowLayouts[word]
	if !ok {
		return nil, driver.Refused(fmt.Errorf("parameter layout: "+
			"%q is neither queue, shedlock nor tb_distributed_lock", word))
	}
	table := a.Param("table", "")
	l, err := link.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(l.Pool())
	d, err := sqlrow.New(ctx, db, sqlrow.PostgreSQL, layout, &sqlrow.Options{
		Table: table, Explain: func(err error) error { return explainRow(l, err) },
	})
	if err != nil {
		db.Close()
		l.Close()
		return nil, err
	}
	return rows{d, db, l}, nil
}

// explainRow explains an error of the client for a table of another library.
func explainRow(l *link.Link, err error) error {
	const noTable, noRight = "42P01", "42501"
	if r, ok := errors.AsType[*pgconn.PgError](err); ok && (r.Code == noTable || r.Code == noRight) {
		why := "it is not there, and stile does not make it"
		if r.Code == noRight {
			why = fmt.Sprintf("user %q lacks a right, which the documentation of the layout lists", l.User())
		}
		return driver.Refused(fmt.Errorf("%s (%s, SQLSTATE %s)", why, l.Hide(r.Message), r.Code))
	}
	return l.Explain(context.Background(), err)
}

// Close is [driver.Driver]. Running statements end with their connections.
func (r rows) Close() error {
	err := r.Driver.Close()
	r.db.Close()
	r.link.Close()
	return err
}
