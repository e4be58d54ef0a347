package stile_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/memory"
)

// Two replicas of a service stand for leader. The one that holds the lock leads until it unlocks or its lease is lost;
// then the next does. Whoever asks the store is told who leads.
func ExampleClient_Candidate() {
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

	leader := func() string {
		queue, err := visitor.Show(ctx, "scheduler")
		if err != nil {
			log.Fatal(err)
		}
		return queue.Claims[0].Holder.Value
	}

	first, err := one.Candidate("scheduler", "10.0.0.1:8080").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	elected := make(chan *stile.Lease)
	go func() {
		lease, err := two.Candidate("scheduler", "10.0.0.2:8080").Lock(ctx)
		if err != nil {
			log.Print(err)
		}
		elected <- lease
	}()
	fmt.Println(leader(), "leads")

	// While it leads, its work runs under first.Context(), which ends when it no longer does.
	if err := first.Unlock(); err != nil {
		log.Fatal(err)
	}
	second := <-elected
	fmt.Println(leader(), "leads, with a higher token:", second.Token() > first.Token())
	if err := second.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 10.0.0.1:8080 leads
	// 10.0.0.2:8080 leads, with a higher token: true
}
