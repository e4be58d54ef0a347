package stile_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// work works under its lock, step by step, until the lock is lost.
func work(ctx context.Context, lock *stile.Lock) (steps int, err error) {
	err = lock.Do(ctx, func(ctx context.Context) error {
		for {
			select {
			case <-time.After(time.Second):
				steps++
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	return steps, err
}

// A program's own test breaks its lock halfway, in virtual time, and checks that the work stops.
func TestWorkStopsWhenItsLockIsStolen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		locks, err := stile.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		time.AfterFunc(time.Minute, func() { _, _ = store.Steal("report", 2*time.Hour) })

		steps, err := work(ctx, locks.Mutex("report"))
		if !errors.Is(err, stile.ErrLost) {
			t.Errorf("work = %v, want ErrLost", err)
		}
		if steps < 60 || steps > 66 {
			t.Errorf("%d steps; want it to stop at the next renewal, within a third of 15s", steps)
		}
	})
}

// The memory store fails on cue: here it loses an answer, then the whole connection.
func Example_faults() {
	ctx := context.Background()
	store := memory.New()
	locks, err := stile.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	// The request to enter is applied, and its answer is lost. It is sent again, and finds the claim of the first.
	store.Inject(memory.Fault{Verb: memory.Enter, Lose: true})
	lease, err := locks.Mutex("report").Lock(ctx)
	fmt.Println("after a lost reply:", err, "in", store.Calls(memory.Enter), "requests")
	if err := lease.Unlock(); err != nil {
		log.Fatal(err)
	}

	store.SetLink(memory.Refused)
	_, err = locks.Mutex("report").LockWithin(ctx, time.Second)
	fmt.Println("without a connection:", errors.Is(err, stile.ErrUnreachable))

	store.Heal()
	fmt.Println("healed:", locks.Mutex("report").Do(ctx, func(context.Context) error { return nil }))
	// Output:
	// after a lost reply: <nil> in 2 requests
	// without a connection: true
	// healed: <nil>
}
