// Nightly runs a job on three machines, each tick once. It is a nightly job that ticks each second.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/jobs"
	_ "github.com/stilelock/stile/store/sqlite"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	var mu sync.Mutex
	runs := map[time.Time]int{} // by tick
	figures := func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if runs[jobs.Tick(ctx)]++; len(runs) == 3 {
			stop()
		}
		return nil // what it writes carries stile.Token(ctx)
	}
	var machines sync.WaitGroup
	for range 3 {
		locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(os.Args[1], "locks.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer locks.Close()
		nightly, err := jobs.New(locks, "nightly", "@every 1s", figures, &jobs.Options{Missed: jobs.RunAll}) // "0 3 * * *"
		if err != nil {
			log.Fatal(err)
		}
		machines.Go(func() {
			if err := nightly.Run(ctx); !errors.Is(err, context.Canceled) {
				log.Fatal(err)
			}
		})
	}
	machines.Wait()
	once := 0
	for _, n := range runs {
		if n == 1 {
			once++
		}
	}
	fmt.Printf("%d ticks on three machines, %d of them run once\n", len(runs), once)
}
