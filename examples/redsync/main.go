// Redsync moves a service from redsync to stile in three steps, each of which can be rolled out machine by machine: in
// layout=setnx stile keeps the very key of redsync, so the old program and the new one exclude each other.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/redis"
)

const order = "orders/42"

// before is how the service takes its lock by redsync.
func before(ctx context.Context, locks *redsync.Redsync, work func() error) error {
	m := locks.NewMutex(order, redsync.WithExpiry(15*time.Second), redsync.WithTries(1))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	err := work()
	_, unlock := m.UnlockContext(ctx)
	return errors.Join(err, unlock)
}

// after is how it takes the same lock by stile. It does not wait here, so as to show who excludes whom.
func after(ctx context.Context, locks *stile.Client, work func() error) error {
	lease, err := locks.Mutex(order).TryLock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(work(), lease.Unlock())
}

func main() {
	ctx, addr := context.Background(), os.Args[2]
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	old := redsync.New(goredis.NewPool(client))
	open := func(url string) *stile.Client {
		locks, err := stile.Open(ctx, url, nil)
		if err != nil {
			log.Fatal(err)
		}
		return locks
	}

	// Step 1: some machines run the new program, with redsync's layout.
	mixed := open("redis://" + addr + "?layout=setnx")
	defer mixed.Close()
	err := before(ctx, old, func() error {
		fmt.Println("step 1: redsync holds; stile is kept out:", errors.Is(after(ctx, mixed, nothing), stile.ErrHeld))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	err = after(ctx, mixed, func() error {
		_, taken := errors.AsType[*redsync.ErrTaken](before(ctx, old, nothing))
		fmt.Println("step 1: stile holds; redsync is kept out:", taken)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// Step 2: no machine runs the old program. The new one takes both locks, first the one in redsync's layout.
	queue := open("redis://" + addr)
	defer queue.Close()
	err = after(ctx, mixed, func() error {
		return after(ctx, queue, func() error {
			fmt.Println("step 2: a machine of step 1 is kept out:", errors.Is(after(ctx, mixed, nothing), stile.ErrHeld))
			fmt.Println("step 2: a machine of step 3 is kept out:", errors.Is(after(ctx, queue, nothing), stile.ErrHeld))
			return nil
		})
	})
	if err != nil {
		log.Fatal(err)
	}

	// Step 3: every machine has taken both. Now the queue is enough, which has an order, tokens and readers.
	err = queue.Mutex(order).Do(ctx, func(ctx context.Context) error {
		fmt.Println("step 3: there are tokens:", stile.Token(ctx) > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func nothing() error { return nil }
