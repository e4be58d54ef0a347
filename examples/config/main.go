// Config has many readers of a configuration in two files, which have to fit each other, and a writer now and then. Readers
// do not wait for readers.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/sqlite"
)

func main() {
	ctx, dir := context.Background(), os.Args[1]
	locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	files := [2]string{filepath.Join(dir, "routes"), filepath.Join(dir, "limits")}
	write := func(version int) error {
		return locks.Writer("config").Do(ctx, func(ctx context.Context) error {
			for _, file := range files {
				if err := stile.FromContext(ctx).Check(); err != nil {
					return err
				}
				if err := os.WriteFile(file, fmt.Append(nil, "version ", version), 0o600); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := write(1); err != nil {
		log.Fatal(err)
	}

	var mu sync.Mutex
	reads, mixed := 0, 0
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 25 {
				var text [2][]byte
				err := locks.Reader("config").Do(ctx, func(context.Context) (err error) {
					for i, file := range files {
						if text[i], err = os.ReadFile(file); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					log.Fatal(err)
				}
				mu.Lock()
				if reads++; string(text[0]) != string(text[1]) {
					mixed++
				}
				mu.Unlock()
			}
		})
	}
	for version := 2; version <= 5; version++ {
		if err := write(version); err != nil {
			log.Fatal(err)
		}
	}
	readers.Wait()
	fmt.Printf("%d reads, %d of which saw two versions at once\n", reads, mixed)
}
