package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/guard"
	_ "github.com/stilelock/stile/store/sqlite" // for sqlite://
)

// A ledger keeps a balance in a database. Each step is a transaction.
type ledger struct {
	db    *sql.DB
	marks *guard.Table // nil means no guard
}

// step runs work in a transaction. With a guard, the token is raised before work runs.
func (l *ledger) step(ctx context.Context, work func(tx *sql.Tx) error) error {
	if l.marks != nil {
		return l.marks.Do(ctx, l.db, "balance", stile.Token(ctx), work)
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// add reads the balance in one step and writes it in another, under a lock. It is paused between them.
func (l *ledger) add(ctx context.Context, locks *stile.Client, amount int, pause func()) error {
	return locks.Mutex("balance").Do(ctx, func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx) // as if the loss of the lock were noticed too late
		var balance int
		if err := l.step(ctx, func(tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT amount FROM balance").Scan(&balance)
		}); err != nil {
			return err
		}
		pause()
		return l.step(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE balance SET amount = ?", balance+amount)
			return err
		})
	})
}

// A program is paused while it holds the lock, until it loses the lock. Another program adds 50 to the balance. Then the
// first goes on, and writes a result that it computed from the former balance.
func Example_guard() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "data.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE balance (amount INTEGER); INSERT INTO balance VALUES (0)"); err != nil {
		log.Fatal(err)
	}
	marks, err := guard.NewTable(guard.SQLite, "")
	if err != nil {
		log.Fatal(err)
	}

	for _, l := range []*ledger{{db, nil}, {db, marks}} {
		if _, err := db.ExecContext(ctx, "UPDATE balance SET amount = 100"); err != nil {
			log.Fatal(err)
		}
		err := l.add(ctx, locks, 10, func() {
			// The pause: the lock is taken from the holder, as the store does when a lease has run out.
			if _, err := locks.Break(ctx, "balance", stile.BreakOptions{Head: true}); err != nil {
				log.Fatal(err)
			}
			if err := l.add(ctx, locks, 50, func() {}); err != nil {
				log.Fatal(err)
			}
		})
		var amount int
		if err := db.QueryRowContext(ctx, "SELECT amount FROM balance").Scan(&amount); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("guard: %v; the balance is %d; the late write was refused: %v\n", l.marks != nil, amount, errors.Is(err, guard.ErrStale))
	}
	// Output:
	// guard: false; the balance is 110; the late write was refused: false
	// guard: true; the balance is 150; the late write was refused: true
}
