package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
)

// Two replicas of a service are candidates. The elected one leads until its function returns, or until its context ends
// because the lease is lost; then the next one leads. Other programs observe the leader.
func ExampleClient_Observe() {
	ctx := context.Background()

	// Each replica is a process of its own, with a client of its own.
	open := func() *stile.Client {
		locks, err := stile.Open(ctx, "memory://leader-example", nil)
		if err != nil {
			log.Fatal(err)
		}
		return locks
	}
	one, two, visitor := open(), open(), open()
	defer one.Close()
	defer two.Close()
	defer visitor.Close()

	over := make(chan error, 2)
	stand := func(replica *stile.Client, address string, resign <-chan struct{}) {
		over <- replica.Candidate("scheduler", address).Do(ctx, func(ctx context.Context) error {
			// It leads now. Its writes carry the token of stile.FromContext(ctx).
			select {
			case <-resign:
				return nil
			case <-ctx.Done(): // it no longer leads
				return context.Cause(ctx)
			}
		})
	}

	resign := make(chan struct{})
	go stand(one, "10.0.0.1:8080", resign)
	terms := 0
	for leader, err := range visitor.Observe(ctx, "scheduler") {
		if err != nil {
			log.Print(err) // the loop tries again when the store can be asked
			continue
		}
		if !leader.Leads() {
			continue
		}
		fmt.Println(leader.Value, "leads")
		if terms++; terms == 2 {
			break
		}
		go stand(two, "10.0.0.2:8080", resign)
		resign <- struct{}{}
	}
	resign <- struct{}{}
	fmt.Println("both ended well:", errors.Join(<-over, <-over) == nil)
	// Output:
	// 10.0.0.1:8080 leads
	// 10.0.0.2:8080 leads
	// both ended well: true
}
