package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
)

// Readers share a name; a writer has it alone. Mutex is another word for Writer.
func ExampleClient_Reader() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "memory://", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	first, err := locks.Reader("catalogue").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := locks.Reader("catalogue").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("two readers at once")

	_, err = locks.Writer("catalogue").TryLock(ctx)
	fmt.Println("a writer beside them is refused:", errors.Is(err, stile.ErrHeld))

	for _, lease := range []*stile.Lease{first, second} {
		if err := lease.Unlock(); err != nil {
			log.Fatal(err)
		}
	}
	err = locks.Writer("catalogue").Do(ctx, func(ctx context.Context) error {
		fmt.Println("the writer has a higher token:", stile.Token(ctx) > second.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// two readers at once
	// a writer beside them is refused: true
	// the writer has a higher token: true
}
