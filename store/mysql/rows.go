package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqlrow"
)

// rowLayouts are tables of other libraries, by the word for them in an address.
var rowLayouts = map[string]sqlrow.Layout{"shedlock": sqlrow.ShedLock, "tb_distributed_lock": sqlrow.MethodLock}

// A rows is a driver with one row per lock, and the pool that it owns.
type rows struct {
	*sqlrow.Driver
	db *sql.DB
}

// openRows opens a table of another library; see package sqlrow.
func openRows(ctx context.Context, a *driver.Address, word string) (driver.Driver, error) {
	layout, ok := rowLayouts[word]
	if !ok {
		return nil, driver.Refused(fmt.Errorf("parameter layout: "+
			"%q is neither queue, shedlock nor tb_distributed_lock", word))
	}
	table := a.Param("table", "")
	db, _, addr, err := openPool(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	says := &store{secret: a.Password, addr: addr, ctx: context.Background()}
	d, err := sqlrow.New(ctx, db, sqlrow.MySQL, layout, &sqlrow.Options{Table: table, Explain: func(err error) error {
		switch {
		case number(err) == noSuchTable:
			return driver.Refused(fmt.Errorf("it is not there, and stile does not make it: %w", says.cause(err)))
		case number(err) != 0 && undone(err):
			return driver.Refused(says.explain(context.Background(), err))
		}
		return says.explain(context.Background(), err)
	}})
	if err != nil {
		db.Close()
		return nil, err
	}
	return rows{d, db}, nil
}

// Close is [driver.Driver].
func (r rows) Close() error {
	err := r.Driver.Close()
	r.db.Close()
	return err
}
