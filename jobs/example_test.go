package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/jobs"
	_ "github.com/stilelock/stile/store/redis"
)

// Every machine runs this program, and the figures are computed once a night.
func Example() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "redis://localhost", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	figures := func(ctx context.Context) error {
		fmt.Println("made under token", stile.Token(ctx))
		return nil
	}
	nightly, err := jobs.New(locks, "nightly", "CRON_TZ=Europe/Berlin 0 3 * * *", figures, &jobs.Options{
		AtLeast: 10 * time.Minute,
		MaxHold: 6 * time.Hour,
		Missed:  jobs.RunOnce,
		Report:  func(r jobs.Result) { log.Print(r.Job, " ", r.Tick, " ", r.Outcome, " ", r.Err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(nightly.Run(ctx))
}

// A payment service sends a callback for one order twice, to two machines. One of them charges, and both give the same
// answer.
func ExampleOnce() {
	ctx := context.Background()
	locks, err := stile.Open(ctx, "redis://localhost", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	answer, err := jobs.Once(locks, "orders/42/paid", 24*time.Hour).Do(ctx, func(ctx context.Context) (string, error) {
		return fmt.Sprint("receipt ", stile.Token(ctx)), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text, answer.Here)
}
