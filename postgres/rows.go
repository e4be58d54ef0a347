package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/sqlrow"
)

// rowLayouts are tables of other libraries, by the word for them in an address.
var rowLayouts = map[string]sqlrow.Layout{"shedlock": sqlrow.ShedLock, "tb_distributed_lock": sqlrow.MethodLock}

// A rows is a driver of one row per lock with the pool that it owns.
type rows struct {
	*sqlrow.Driver
	db   *sql.DB
	pool *pgxpool.Pool
}

// openRows opens a table of another library's; see package sqlrow.
func openRows(ctx context.Context, a *driver.Address, word string) (driver.Driver, error) {
	layout, ok := rowLayouts[word]
	if !ok {
		return nil, driver.Refused(fmt.Errorf("parameter layout: %q is neither queue, shedlock nor tb_distributed_lock", word))
	}
	table := a.Param("table", "")
	config, err := poolConfig(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, driver.Refused(errors.New(unquoted(err, a.Password)))
	}
	says := &Driver{pool: pool, secret: a.Password, user: config.ConnConfig.User, ctx: context.Background()}
	db := stdlib.OpenDBFromPool(pool)
	d, err := sqlrow.New(ctx, db, sqlrow.PostgreSQL, layout, &sqlrow.Options{
		Table: table, Explain: func(err error) error { return says.explainRow(err) },
	})
	if err != nil {
		db.Close()
		pool.Close()
		return nil, err
	}
	return rows{d, db, pool}, nil
}

// explainRow is explain for a table that is not stile's.
func (d *Driver) explainRow(err error) error {
	const noTable, noRight = "42P01", "42501"
	if r, ok := errors.AsType[*pgconn.PgError](err); ok && (r.Code == noTable || r.Code == noRight) {
		why := "it is not there, and stile does not make it"
		if r.Code == noRight {
			why = fmt.Sprintf("user %q lacks a right, which the documentation of the layout lists", d.user)
		}
		return driver.Refused(fmt.Errorf("%s (%s, SQLSTATE %s)", why, d.hide(r.Message), r.Code))
	}
	return d.explain(context.Background(), err)
}

// Close is [driver.Driver].
func (r rows) Close() error {
	err := r.Driver.Close()
	go func() { // the pool waits for connections that are in use, which Close need not
		r.db.Close()
		r.pool.Close()
	}()
	return err
}
