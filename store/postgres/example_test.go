package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/store/postgres"
)

// Pays an order once, even if many processes try at once and some of them die: the lock, the check and the payment are one
// transaction.
func ExampleLockTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.LockTx(ctx, tx, "order/7"); err != nil {
			return err
		}
		var paid bool
		if err := tx.QueryRow(ctx, "SELECT paid FROM orders WHERE id = 7").Scan(&paid); err != nil || paid {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO payments (order_id, cents) VALUES (7, 990)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE orders SET paid = true WHERE id = 7")
		return err
	})
	fmt.Println(err)
}
