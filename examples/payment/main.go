// Payment charges an order once, though the bank calls back three times, each time to another server, and though one server
// is paused past its lease right before it writes: the guard refuses its write.
package main

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
	_ "github.com/stilelock/stile/store/sqlite" // for sqlite://, and the driver of database/sql
)

const order = "orders/42"

// A server has a client of its own, as each process has. All have one database.
type server struct {
	locks *stile.Client
	db    *sql.DB
	marks *guard.Table
}

// callback charges the order, if nobody has. Pause runs between the process's look and its write.
func (s *server) callback(ctx context.Context, pause func()) (charged bool, err error) {
	err = s.locks.Mutex(order).Do(ctx, func(ctx context.Context) error {
		token := stile.Token(ctx)
		pause()
		ctx = context.WithoutCancel(ctx) // a late process that does not look at its context
		// Do raises the token before it reads. A later holder may have been here: then it is refused.
		return s.marks.Do(ctx, s.db, order, token, func(tx *sql.Tx) error {
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM charges WHERE id = 42").Scan(&n); err != nil || n > 0 {
				return err
			}
			charged = true
			_, err := tx.ExecContext(ctx, "INSERT INTO charges (id, amount) VALUES (42, 100)")
			return err
		})
	})
	return charged && err == nil, err
}

func main() {
	ctx, dir := context.Background(), os.Args[1]
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE charges (id integer, amount integer)")
	check(err)
	marks, err := guard.NewTable(guard.SQLite, "")
	check(err)
	check(marks.Create(ctx, db))
	var servers [3]server
	for i := range servers {
		locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(dir, "locks.db"), nil)
		check(err)
		defer locks.Close()
		servers[i] = server{locks, db, marks}
	}

	charged, err := servers[0].callback(ctx, func() {
		// The pause: the store takes the lock away, as when a lease has run out, and the second server charges.
		_, err := servers[1].locks.Break(ctx, order, stile.BreakOptions{Head: true})
		check(err)
		charged, err := servers[1].callback(ctx, func() {})
		fmt.Println("second server: charged", charged, "error", err)
	})
	fmt.Println("first server, after a pause: charged", charged, "late write refused", errors.Is(err, guard.ErrStale))
	charged, err = servers[2].callback(ctx, func() {})
	fmt.Println("third server: charged", charged, "error", err)
	var n int
	check(db.QueryRowContext(ctx, "SELECT count(*) FROM charges").Scan(&n))
	fmt.Println("charges of the order:", n)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
