package stile_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
)

// A transfer needs two accounts at once. Joined locks are taken in the order of their names, so two transfers between
// the same accounts, one each way, do not wait for each other.
func ExampleJoin() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	balance := map[string]int{"ann": 100, "bob": 100}
	transfer := func(from, to string, amount int) error {
		both := stile.Join(locks.Mutex("accounts/"+from), locks.Mutex("accounts/"+to))
		return both.Do(ctx, func(context.Context) error {
			balance[from] -= amount
			balance[to] += amount
			return nil
		})
	}
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if err := transfer("ann", "bob", 5); err != nil {
				log.Print(err)
			}
		})
		group.Go(func() {
			if err := transfer("bob", "ann", 2); err != nil {
				log.Print(err)
			}
		})
	}
	group.Wait()
	fmt.Println(balance)

	// Each part has a token of its own, for the account that it protects.
	lease, err := stile.Join(locks.Mutex("accounts/bob"), locks.Mutex("accounts/ann")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, part := range lease.Parts() {
		fmt.Println(part.Name(), part.Token() > 0)
	}
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// map[ann:70 bob:130]
	// accounts/ann true
	// accounts/bob true
}
