package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
)

// A writer has finished writing, and goes on reading. From then on others may read too, and no writer changes the data in
// between.
func ExampleLease_Downgrade() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Writer("index").Do(ctx, func(ctx context.Context) error {
		// Write.
		if err := stile.FromContext(ctx).Downgrade(ctx); err != nil {
			return err // the lease is a reader's in any case: write nothing now
		}
		// Read. Others come from elsewhere, with another context.
		_, err := locks.Reader("index").TryLock(context.Background())
		fmt.Println("another reader:", err)
		_, err = locks.Writer("index").TryLock(context.Background())
		fmt.Println("another writer is refused:", errors.Is(err, stile.ErrHeld))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// another reader: <nil>
	// another writer is refused: true
}

// A leader is elected before it is ready, and proclaims when it is.
func ExampleLease_Proclaim() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Candidate("scheduler", "starting").Do(ctx, func(ctx context.Context) error {
		before, err := locks.Leader(ctx, "scheduler")
		if err != nil {
			return err
		}
		if err := stile.FromContext(ctx).Proclaim(ctx, "10.0.0.7:8080"); err != nil {
			return err
		}
		after, err := locks.Leader(ctx, "scheduler")
		fmt.Println(before.Value, "→", after.Value)
		fmt.Println("one term:", before.Ticket == after.Ticket)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// starting → 10.0.0.7:8080
	// one term: true
}
