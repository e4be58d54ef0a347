//go:build unix

package payment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
)

// A shopDB is the shop's data in the demo of payments: a table of orders, and a table of charges. With rows, each order is
// its own guard.
type shopDB struct {
	*Ledger
	prefix string        // the beginning of the tables' names
	rows   *guard.Column // nil without a guard
}

// A Ledger is an open database and its dialect.
type Ledger struct {
	DB      *sql.DB
	dialect guard.Dialect
	name    string               // of the database, for messages; empty for the demo's own file
	level   *sql.TxOptions       // of transactions
	refused func(err error) bool // whether the server refuses this for good; nil if there is no server

	// again reports whether the server has undone a transaction that should be repeated, as after a deadlock; nil like
	// refused.
	again func(err error) bool

	// lockTx locks a name in a transaction, until the transaction ends; nil if the database has no such lock.
	lockTx func(ctx context.Context, tx *sql.Tx, name string) error
	// prepare makes what lockTx needs; nil if it needs nothing.
	prepare func(ctx context.Context, db *sql.DB) error
}

// ledgers has a function for each URL scheme that opens a database.
var ledgers = map[string]func(a *driver.Address) (*Ledger, error){
	"postgres": openPostgres, "postgresql": openPostgres, "mysql": openMySQL, "mariadb": openMySQL,
}

const (
	sqlOrders = `CREATE TABLE {}orders (id BIGINT PRIMARY KEY, price BIGINT NOT NULL, paid BIGINT NOT NULL DEFAULT 0, token BIGINT)`
	sqlCharge = `CREATE TABLE {}charges (order_id BIGINT NOT NULL, amount BIGINT NOT NULL)`
	sqlStock  = `INSERT INTO {}orders (id, price) VALUES `
	sqlRead   = `SELECT price, paid FROM {}orders WHERE id = ?`
	sqlTake   = `INSERT INTO {}charges (order_id, amount) VALUES (?, ?)`
	sqlPaid   = `UPDATE {}orders SET paid = 1 WHERE id = ?`
	sqlTally  = `SELECT o.id, o.price, COUNT(c.order_id), COALESCE(SUM(c.amount), 0) FROM {}orders o LEFT JOIN {}charges c ON c.order_id = o.id
GROUP BY o.id, o.price ORDER BY o.id`

	stockAtOnce = 500 // orders in a statement
	dialTimeout = 5 * time.Second
)

// openShopDB opens the data of a column: in the database of a URL or, if the URL is empty, in a file.
func openShopDB(url, place string, guarded bool) (db *shopDB, err error) {
	db = &shopDB{}
	if url == "" {
		db.Ledger, err = openFile(place)
	} else if db.prefix = place; true {
		db.Ledger, err = OpenLedger(url)
	}
	if err == nil && guarded {
		db.rows, err = guard.NewColumn(db.dialect, db.prefix+"orders", "id", "token")
	}
	return db, err
}

// OpenLedger opens the database of --data.
func OpenLedger(url string) (*Ledger, error) {
	a, err := driver.ParseAddress(url)
	if err != nil {
		return nil, exit.Usage("--data: %w", err)
	}
	opening.Hide(a, url)
	open := ledgers[a.Scheme]
	if open == nil {
		return nil, exit.Usage("--data %s: the orders are kept in PostgreSQL or MySQL, so it must begin with postgres:// or "+
			"mysql://", a)
	}
	l, err := open(a)
	if err == nil {
		err = a.Done()
	}
	if err != nil {
		return nil, exit.Usage("--data %s: %w", a, err)
	}
	l.name = a.String()
	l.DB.SetMaxOpenConns(2)
	return l, nil
}

// blame adds to an error that the data caused it. Errors of the demo's own file stay as they are.
func (l *Ledger) blame(err error) error {
	if l.name == "" || err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, context.Canceled) {
		return err
	}
	code := exit.Store
	if l.refused(err) {
		code = exit.BadUsage
	}
	return exit.With(code, fmt.Errorf("the orders in %s: %w", l.name, err))
}

// words translates a statement into the dialect.
func (db *shopDB) words(text string) string {
	text = strings.ReplaceAll(text, "{}", db.prefix)
	if db.dialect != guard.PostgreSQL {
		return text
	}
	for n := 1; strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", n), 1)
	}
	return text
}

// stock makes the tables, with a number of orders.
func (db *shopDB) stock(ctx context.Context, orders int) error {
	if db.prepare != nil {
		if err := db.prepare(ctx, db.DB); err != nil {
			return db.blame(err)
		}
	}
	for _, text := range []string{sqlOrders, sqlCharge} {
		if _, err := db.DB.ExecContext(ctx, db.words(text)); err != nil {
			return db.blame(err)
		}
	}
	return db.step(ctx, func(tx *sql.Tx) error {
		for from := 1; from <= orders; from += stockAtOnce {
			var values []string
			for i := from; i <= min(orders, from+stockAtOnce-1); i++ {
				values = append(values, fmt.Sprintf("(%d, %d)", i, PriceOf(i)))
			}
			if _, err := tx.ExecContext(ctx, db.words(sqlStock)+strings.Join(values, ", ")); err != nil {
				return err
			}
		}
		return nil
	})
}

// clear removes the tables, if it can.
func (db *shopDB) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), demo.ClearFor)
	defer cancel()
	for _, table := range []string{"charges", "orders"} {
		_, _ = db.DB.ExecContext(ctx, db.words("DROP TABLE IF EXISTS {}"+table)) // a failure does not matter: the demo is over
	}
}

// PriceOf returns the price of an order.
func PriceOf(order int) int { return 10 + order%9*5 }

// look returns the price of an order, and whether the order is paid. With a guard, the token is raised first.
func (db *shopDB) look(ctx context.Context, order int, token int64) (price int, paid bool, err error) {
	read := func(tx *sql.Tx) (err error) { price, paid, err = db.read(ctx, tx, order); return err }
	if db.rows != nil {
		err = db.blame(db.rows.Do(ctx, db.DB, order, token, read))
	} else {
		err = db.step(ctx, read)
	}
	return price, paid, err
}

func (db *shopDB) read(ctx context.Context, tx *sql.Tx, order int) (price int, paid bool, err error) {
	number := 0
	err = tx.QueryRowContext(ctx, db.words(sqlRead), order).Scan(&price, &number)
	return price, number == 1, err
}

// charge takes the money for an order. With a guard, the token is checked in the same transaction.
func (db *shopDB) charge(ctx context.Context, order, price int, token int64) error {
	return db.step(ctx, func(tx *sql.Tx) error {
		if db.rows != nil {
			if err := db.rows.Check(ctx, guard.SQL(tx), order, token); err != nil {
				return err
			}
		}
		return db.take(ctx, tx, order, price)
	})
}

func (db *shopDB) take(ctx context.Context, tx *sql.Tx, order, price int) error {
	if _, err := tx.ExecContext(ctx, db.words(sqlTake), order, price); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, db.words(sqlPaid), order)
	return err
}

func (db *shopDB) step(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := db.DB.BeginTx(ctx, db.level)
	if err != nil {
		return db.blame(err)
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	if err := work(tx); err != nil {
		return db.blame(err)
	}
	return db.blame(tx.Commit())
}

func (db *shopDB) close() error { return db.DB.Close() }

// A tally is the charges, counted from the data itself.
type tally struct {
	once  int
	twice []int // the orders that were charged more than once
	open  []int // the orders that were not charged
	price int   // of all orders
	taken int
}

func (db *shopDB) tally(ctx context.Context) (sum tally, err error) {
	rows, err := db.DB.QueryContext(ctx, db.words(sqlTally))
	if err != nil {
		return sum, db.blame(err)
	}
	defer rows.Close()
	for rows.Next() {
		var order, price, times, taken int
		if err := rows.Scan(&order, &price, &times, &taken); err != nil {
			return sum, db.blame(err)
		}
		sum.price += price
		sum.taken += taken
		switch times {
		case 0:
			sum.open = append(sum.open, order)
		case 1:
			sum.once++
		default:
			sum.twice = append(sum.twice, order)
		}
	}
	return sum, db.blame(rows.Err())
}
