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
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
	"github.com/stilelock/stile/internal/theatre"
)

// A till is the shop's data in the demonstration of payments: two tables, with the orders, and with what was charged for them.
// With rows, each order is its own guard.
type till struct {
	*Ledger
	prefix string        // of the names of the tables
	rows   *guard.Column // nil without a guard
}

// A Ledger is an open database with what is its own.
type Ledger struct {
	DB      *sql.DB
	dialect guard.Dialect
	name    string               // of the database, for messages; empty for the demo's own file
	level   *sql.TxOptions       // of transactions
	refused func(err error) bool // whether the server says that it will not do this; nil if there is no server

	// again reports whether the server has undone a transaction that is to begin again, as after a deadlock; nil like refused.
	again func(err error) bool

	// lockTx locks a name in a transaction, until the transaction ends; nil where there is none.
	lockTx func(ctx context.Context, tx *sql.Tx, name string) error
	// prepare makes what lockTx needs; nil if that is nothing.
	prepare func(ctx context.Context, db *sql.DB) error
}

// ledgers open a database by the scheme of its URL.
var ledgers = map[string]func(a *driver.Address) (*Ledger, error){
	"postgres": openPostgres, "postgresql": openPostgres, "mysql": openMySQL, "mariadb": openMySQL,
}

const (
	tillOrders = `CREATE TABLE {}orders (id BIGINT PRIMARY KEY, price BIGINT NOT NULL, paid BIGINT NOT NULL DEFAULT 0, token BIGINT)`
	tillCharge = `CREATE TABLE {}charges (order_id BIGINT NOT NULL, amount BIGINT NOT NULL)`
	tillStock  = `INSERT INTO {}orders (id, price) VALUES `
	tillRead   = `SELECT price, paid FROM {}orders WHERE id = ?`
	tillTake   = `INSERT INTO {}charges (order_id, amount) VALUES (?, ?)`
	tillPaid   = `UPDATE {}orders SET paid = 1 WHERE id = ?`
	tillTally  = `SELECT o.id, o.price, COUNT(c.order_id), COALESCE(SUM(c.amount), 0) FROM {}orders o LEFT JOIN {}charges c ON c.order_id = o.id
GROUP BY o.id, o.price ORDER BY o.id`

	stockAtOnce = 500 // orders in a statement
	dialTimeout = 5 * time.Second
)

// openTill opens the data of a column: of the database of a URL, or if that is empty of a file.
func openTill(url, place string, guarded bool) (t *till, err error) {
	t = &till{}
	if url == "" {
		t.Ledger, err = openFile(place)
	} else if t.prefix = place; true {
		t.Ledger, err = OpenLedger(url)
	}
	if err == nil && guarded {
		t.rows, err = guard.NewColumn(t.dialect, t.prefix+"orders", "id", "token")
	}
	return t, err
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
		return nil, exit.Usage("--data %s: the orders are kept in PostgreSQL or MySQL, so it must begin with postgres:// or mysql://", a)
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

// blame says in an error that the data is at fault. A file is the demo's own, and its errors are as they are.
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

// words writes a statement in the dialect.
func (t *till) words(text string) string {
	text = strings.ReplaceAll(text, "{}", t.prefix)
	if t.dialect != guard.PostgreSQL {
		return text
	}
	for n := 1; strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", n), 1)
	}
	return text
}

// stock makes the tables, with so many orders.
func (t *till) stock(ctx context.Context, orders int) error {
	if t.prepare != nil {
		if err := t.prepare(ctx, t.DB); err != nil {
			return t.blame(err)
		}
	}
	for _, text := range []string{tillOrders, tillCharge} {
		if _, err := t.DB.ExecContext(ctx, t.words(text)); err != nil {
			return t.blame(err)
		}
	}
	return t.step(ctx, func(tx *sql.Tx) error {
		for from := 1; from <= orders; from += stockAtOnce {
			var values []string
			for i := from; i <= min(orders, from+stockAtOnce-1); i++ {
				values = append(values, fmt.Sprintf("(%d, %d)", i, PriceOf(i)))
			}
			if _, err := tx.ExecContext(ctx, t.words(tillStock)+strings.Join(values, ", ")); err != nil {
				return err
			}
		}
		return nil
	})
}

// clear takes the tables away, as far as that can be done.
func (t *till) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), theatre.ClearFor)
	defer cancel()
	for _, table := range []string{"charges", "orders"} {
		_, _ = t.DB.ExecContext(ctx, t.words("DROP TABLE IF EXISTS {}"+table)) // the demo has shown what it shows
	}
}

// PriceOf is what an order costs.
func PriceOf(order int) int { return 10 + order%9*5 }

// look returns the price of an order, and whether the order is paid. With a guard, the token is raised first.
func (t *till) look(ctx context.Context, order int, token int64) (price int, paid bool, err error) {
	read := func(tx *sql.Tx) (err error) { price, paid, err = t.read(ctx, tx, order); return err }
	if t.rows != nil {
		err = t.blame(t.rows.Do(ctx, t.DB, order, token, read))
	} else {
		err = t.step(ctx, read)
	}
	return price, paid, err
}

func (t *till) read(ctx context.Context, tx *sql.Tx, order int) (price int, paid bool, err error) {
	number := 0
	err = tx.QueryRowContext(ctx, t.words(tillRead), order).Scan(&price, &number)
	return price, number == 1, err
}

// charge takes the money for an order. With a guard, the token is checked in the same transaction.
func (t *till) charge(ctx context.Context, order, price int, token int64) error {
	return t.step(ctx, func(tx *sql.Tx) error {
		if t.rows != nil {
			if err := t.rows.Check(ctx, guard.SQL(tx), order, token); err != nil {
				return err
			}
		}
		return t.take(ctx, tx, order, price)
	})
}

func (t *till) take(ctx context.Context, tx *sql.Tx, order, price int) error {
	if _, err := tx.ExecContext(ctx, t.words(tillTake), order, price); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, t.words(tillPaid), order)
	return err
}

func (t *till) step(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := t.DB.BeginTx(ctx, t.level)
	if err != nil {
		return t.blame(err)
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	if err := work(tx); err != nil {
		return t.blame(err)
	}
	return t.blame(tx.Commit())
}

func (t *till) close() error { return t.DB.Close() }

// A tally is what was charged, counted from the data itself.
type tally struct {
	once  int
	twice []int // the orders that were charged more than once
	open  []int // the orders that were not charged
	price int   // of all orders
	taken int
}

func (t *till) tally(ctx context.Context) (sum tally, err error) {
	rows, err := t.DB.QueryContext(ctx, t.words(tillTally))
	if err != nil {
		return sum, t.blame(err)
	}
	defer rows.Close()
	for rows.Next() {
		var order, price, times, taken int
		if err := rows.Scan(&order, &price, &times, &taken); err != nil {
			return sum, t.blame(err)
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
	return sum, t.blame(rows.Err())
}
