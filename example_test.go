package stile_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory" // for memory://
)

// An account is protected by a lock. It remembers the highest token that it was shown, and refuses a lower one, such as the
// token of a holder that was paused until its lease ran out.
type account struct {
	mu      sync.Mutex
	token   int64
	balance int
}

// read shows the account a token before it returns the balance, so that no earlier holder can write from then on.
func (a *account) read(token int64) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.token {
		return 0, fmt.Errorf("token %d is too old", token)
	}
	a.token = token
	return a.balance, nil
}

// write checks the token and changes the balance in one step.
func (a *account) write(token int64, balance int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.token {
		return fmt.Errorf("token %d is too old", token)
	}
	a.token, a.balance = token, balance
	return nil
}

// Many goroutines of one or more processes change data that only one may change at a time. Do holds the lock while a
// function runs, and the function passes its lease's token to the data.
func Example() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	var ann account
	deposit := func(amount int) error {
		return locks.Mutex("accounts/ann").Do(ctx, func(ctx context.Context) error {
			token := stile.Token(ctx)
			balance, err := ann.read(token)
			if err != nil {
				return err
			}
			return ann.write(token, balance+amount)
		})
	}
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if err := deposit(1); err != nil {
				log.Print(err)
			}
		})
	}
	group.Wait()

	fmt.Println("balance:", ann.balance)
	fmt.Println("a holder from long ago:", ann.write(1, 0))
	// Output:
	// balance: 100
	// a holder from long ago: token 1 is too old
}
