// Tickets sells 20 tickets from four sellers, each with a client of its own as in a process of its own. Browsing needs no
// turn of its own: readers share the lock.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/sqlite"
)

const concert = "concerts/7"

// left reads how many tickets there are.
func left(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// sell sells one ticket, if there is one.
func sell(ctx context.Context, locks *stile.Client, path string) (sold bool, err error) {
	err = locks.Writer(concert).Do(ctx, func(ctx context.Context) error {
		n, err := left(path)
		if err != nil || n == 0 {
			return err
		}
		if err := stile.FromContext(ctx).Check(); err != nil {
			return err // on the line before the write: the lease may be over
		}
		sold = true
		return os.WriteFile(path, []byte(strconv.Itoa(n-1)), 0o600)
	})
	return sold && err == nil, err
}

func main() {
	ctx, dir := context.Background(), os.Args[1]
	path := filepath.Join(dir, "tickets")
	if err := os.WriteFile(path, []byte("20"), 0o600); err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	var total int
	var sellers sync.WaitGroup
	for range 4 {
		locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(dir, "locks.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer locks.Close()
		sellers.Go(func() {
			for {
				err := locks.Reader(concert).Do(ctx, func(context.Context) error { _, err := left(path); return err })
				if err != nil {
					log.Fatal(err)
				}
				sold, err := sell(ctx, locks, path)
				if err != nil {
					log.Fatal(err)
				}
				if !sold {
					return
				}
				mu.Lock()
				total++
				mu.Unlock()
			}
		})
	}
	sellers.Wait()
	rest, err := left(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("sold %d tickets of 20, %d are left\n", total, rest)
}
