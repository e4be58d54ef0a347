package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	_ "github.com/stilelock/stile/store/memory"
)

// Five licences are shared. Each program takes its number at once, so two cannot hold a part each and wait for the other's.
func ExampleClient_Permit() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	four, err := locks.Permit("licences", 4, 5).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Permit("licences", 2, 5).TryLock(ctx)
	fmt.Println("two more are refused:", errors.Is(err, stile.ErrHeld))

	err = locks.Permit("licences", 1, 5).Do(ctx, func(context.Context) error {
		fmt.Println("the last one is free")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// All programs must give the same number.
	_, err = locks.Permit("licences", 1, 3).Lock(ctx)
	if capacity, ok := errors.AsType[*driver.CapacityError](err); ok && errors.Is(err, stile.ErrCapacity) {
		fmt.Println("the name", capacity)
	}
	if err := four.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// two more are refused: true
	// the last one is free
	// the name exists with 5, asked for 3
}
