package guardtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/guard"
)

// Marks runs the tests of [guard.Marks]. They have none of [Names] yet.
func Marks(t *testing.T, marks guard.Marks) {
	raise := func(t *testing.T, resource string, token int64) error {
		t.Helper()
		return marks.Raise(t.Context(), resource, token)
	}
	t.Run("rise, repeat, refuse", func(t *testing.T) {
		for i, token := range Tokens {
			for range 2 { // the same lease again
				if err := raise(t, "ladder", token); err != nil {
					t.Fatalf("raise %d: %v", token, err)
				}
			}
			for _, lower := range Tokens[:i] {
				err := raise(t, "ladder", lower)
				want := guard.StaleError{Resource: "ladder", Token: lower, Newer: token}
				if stale, ok := errors.AsType[*guard.StaleError](err); !ok || *stale != want {
					t.Fatalf("raise %d after %d = %v, want a StaleError with both", lower, token, err)
				}
			}
		}
	})
	t.Run("names are kept apart", func(t *testing.T) {
		for i, name := range Names {
			if err := raise(t, name, int64(1000-i)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		for i, name := range Names {
			stale, ok := errors.AsType[*guard.StaleError](raise(t, name, 1))
			if want := int64(1000 - i); !ok || stale.Newer != want || stale.Resource != name {
				t.Errorf("%q: raise 1 gives %v, want the mark %d", name, stale, want)
			}
		}
	})
	t.Run("bad input", func(t *testing.T) {
		for _, name := range BadNames {
			if err := raise(t, name, 1); !errors.Is(err, guard.ErrInvalid) {
				t.Errorf("%q: %v, want ErrInvalid", name, err)
			}
		}
		for _, token := range []int64{0, -1, -1 << 63} {
			if err := raise(t, "bad", token); !errors.Is(err, guard.ErrNoToken) {
				t.Errorf("token %d: %v, want ErrNoToken", token, err)
			}
		}
		if err := raise(t, "bad", 1); err != nil {
			t.Errorf("what was refused left a mark: %v", err)
		}
	})
	t.Run("many at once", func(t *testing.T) { crowd(t, marks) })
}

// crowd raises the tokens 1 to 40 in random order from several goroutines. The highest must win, and nobody's raise may
// come about after a higher one was answered.
func crowd(t *testing.T, marks guard.Marks) {
	const most = 40
	var (
		mu       sync.Mutex // guards answered
		answered int64
		group    sync.WaitGroup
		work     = make(chan int64)
	)
	for range 4 {
		group.Go(func() {
			for token := range work {
				mu.Lock()
				before := answered
				mu.Unlock()
				err := marks.Raise(context.Background(), "crowd", token)
				switch {
				case err == nil && token < before:
					t.Errorf("raise %d went through although %d had", token, before)
				case err == nil:
					mu.Lock()
					answered = max(answered, token)
					mu.Unlock()
				case !errors.Is(err, guard.ErrStale):
					t.Errorf("raise %d: %v", token, err)
				}
			}
		})
	}
	order := rand.Perm(most)
	for _, i := range slices.Concat(order, order) {
		work <- int64(i + 1)
	}
	close(work)
	group.Wait()
	if err := marks.Raise(context.Background(), "crowd", most-1); !errors.Is(err, guard.ErrStale) {
		t.Errorf("raise %d in the end = %v, want ErrStale: %d was there", most-1, err, most)
	}
}

// AtWork starts a write, and raises a higher token at the same time: the raise waits for the write, so that nobody reads
// data under the higher token that is about to be overwritten. do runs the work as a guarded write with a raised token.
func AtWork(
	t *testing.T, raise func(ctx context.Context, token int64) error, do func(token int64, work func() error) error,
) {
	t.Helper()
	t.Run("a raise waits for a write at work", func(t *testing.T) {
		if err := raise(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		raised := make(chan error, 1)
		err := do(1, func() error {
			go func() { raised <- raise(context.Background(), 2) }()
			select {
			case err := <-raised:
				t.Errorf("a raise beside a write = %v; want that it waits", err)
				raised <- err
			case <-time.After(blockedFor):
			}
			return nil
		})
		if err != nil {
			t.Errorf("the write that was at work = %v; want nil", err)
		}
		if err := <-raised; err != nil {
			t.Errorf("the raise after it = %v; want nil", err)
		}
		if err := do(1, func() error { return nil }); !errors.Is(err, guard.ErrStale) {
			t.Errorf("a write after the raise = %v; want ErrStale", err)
		}
	})
}
