package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
)

// A job that another machine may be running does not wait, or not for long. The error says who has the lock.
func ExampleLock_TryLock() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	nightly := locks.Mutex("backup").With(stile.LockOptions{Owner: "nightly", Reason: "full backup"})
	lease, err := nightly.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	_, err = locks.Mutex("backup").TryLock(ctx)
	if held, ok := errors.AsType[*stile.HeldError](err); ok {
		fmt.Println("now:", held.By.Owner, "has it, for", held.By.Reason)
	}
	_, err = locks.Mutex("backup").LockWithin(ctx, time.Second)
	if held, ok := errors.AsType[*stile.HeldError](err); ok {
		fmt.Println("10 ms later:", held.By.Owner, "has it, for", held.By.Reason)
	}

	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}
	lease, err = locks.Mutex("backup").LockWithin(ctx, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("free again")
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// now: nightly has it, for full backup
	// 10 ms later: nightly has it, for full backup
	// free again
}
