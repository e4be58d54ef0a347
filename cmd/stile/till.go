package main

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/stilelock/stile/guard"
)

// A till is the shop's data in the demonstration of payments: an SQLite file with the orders, and with what was charged
// for them. With rows, each order is its own guard.
type till struct {
	db   *sql.DB
	rows *guard.Column // nil without a guard
}

const (
	tillDriver = "sqlite" // of database/sql

	tillSchema = `CREATE TABLE orders (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, paid INTEGER NOT NULL DEFAULT 0, token INTEGER);
CREATE TABLE charges (id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, amount INTEGER NOT NULL)`
	tillOrder = `INSERT INTO orders (id, price) VALUES (?, ?)`
	tillRead  = `SELECT price, paid FROM orders WHERE id = ?`
	tillTake  = `INSERT INTO charges (order_id, amount) VALUES (?, ?)`
	tillPaid  = `UPDATE orders SET paid = 1 WHERE id = ?`
	tillTally = `SELECT o.id, o.price, COUNT(c.id), COALESCE(SUM(c.amount), 0) FROM orders o LEFT JOIN charges c ON c.order_id = o.id
GROUP BY o.id ORDER BY o.id`
)

// hasTills reports whether this program was built with SQLite.
func hasTills() bool { return slices.Contains(sql.Drivers(), tillDriver) }

func openTill(path string, guarded bool) (*till, error) {
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		// The file does not outlive the demonstration, so it need not be on the disk.
		"_pragma": {"busy_timeout(20000)", "synchronous(off)"}, "_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open(tillDriver, dsn.String())
	if err != nil {
		return nil, err
	}
	t := &till{db: db}
	if guarded {
		if t.rows, err = guard.NewColumn(guard.SQLite, "orders", "id", "token"); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// stock makes the tables, with so many orders.
func (t *till) stock(ctx context.Context, orders int) error {
	return t.step(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, tillSchema); err != nil {
			return err
		}
		for i := range orders {
			if _, err := tx.ExecContext(ctx, tillOrder, i+1, priceOf(i+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

func priceOf(order int) int { return 10 + order%9*5 }

// look returns the price of an order, and whether the order is paid. With a guard, the token is raised first.
func (t *till) look(ctx context.Context, order int, token int64) (price int, paid bool, err error) {
	read := func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, tillRead, order).Scan(&price, &paid) }
	if t.rows != nil {
		err = t.rows.Do(ctx, t.db, order, token, read)
	} else {
		err = t.step(ctx, read)
	}
	return price, paid, err
}

// charge takes the money for an order. With a guard, the token is checked in the same transaction.
func (t *till) charge(ctx context.Context, order, price int, token int64) error {
	return t.step(ctx, func(tx *sql.Tx) error {
		if t.rows != nil {
			if err := t.rows.Check(ctx, guard.SQL(tx), order, token); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, tillTake, order, price); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, tillPaid, order)
		return err
	})
}

func (t *till) step(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (t *till) close() error { return t.db.Close() }

// A tally is what was charged, counted from the data itself.
type tally struct {
	once  int
	twice []int // the orders that were charged more than once
	open  []int // the orders that were not charged
	price int   // of all orders
	taken int
}

func (t *till) tally(ctx context.Context) (sum tally, err error) {
	rows, err := t.db.QueryContext(ctx, tillTally)
	if err != nil {
		return sum, err
	}
	defer rows.Close()
	for rows.Next() {
		var order, price, times, taken int
		if err := rows.Scan(&order, &price, &times, &taken); err != nil {
			return sum, err
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
	return sum, rows.Err()
}
