// Leader lets two replicas stand for leader. The first is stopped as by a crash: its claim stays until its lease runs
// out, and then the second leads, with a higher token. A visitor follows who leads.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/sqlite"
)

// open returns a client, as each process has one.
func open(ctx context.Context, dir string) *stile.Client {
	locks, err := stile.Open(ctx, "sqlite://"+filepath.Join(dir, "locks.db"), &stile.Options{
		LockOptions: stile.LockOptions{TTL: 2 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	return locks
}

// stand leads whenever it can, until ctx ends.
func stand(ctx context.Context, locks *stile.Client, address string) {
	for ctx.Err() == nil {
		err := locks.Candidate("scheduler", address).Do(ctx, func(ctx context.Context) error {
			<-ctx.Done() // the work of a leader, each write of which carries stile.Token(ctx)
			return context.Cause(ctx)
		})
		log.Print(address, ": ", err)
		select {
		case <-time.After(time.Second): // the fault may last
		case <-ctx.Done():
		}
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := os.Args[1]
	first, second, visitor := open(ctx, dir), open(ctx, dir), open(ctx, dir)
	defer second.Close()
	defer visitor.Close()

	alive, crash := context.WithCancel(ctx)
	go stand(alive, first, "10.0.0.1:8080")
	var before stile.Leader
	for leader, err := range visitor.Observe(ctx, "scheduler") {
		switch {
		case err != nil:
			log.Print(err) // not known for the moment
		case !leader.Leads():
		case !before.Leads():
			fmt.Println(leader.Value, "leads")
			before = leader
			go stand(ctx, second, "10.0.0.2:8080")
			// The crash: a client that is closed leaves the claim of a leader that did not resign.
			first.Close()
			crash()
		default:
			fmt.Println(leader.Value, "leads, with higher tokens:", leader.Ticket > before.Ticket)
			return
		}
	}
}
