package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/store/memory"
)

func TestGoroutinesTakeTurnsOnOneClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		held := w.lock(w.join(nil).Mutex("x"))
		var waiting []<-chan result
		for range 100 {
			waiting = append(waiting, w.inLine(w.Context(), a.Mutex("x")))
		}
		if n := w.queued("x"); n != 2 {
			w.Errorf("%d claims for 100 waiters of one process; want theirs and the holder's", n)
		}
		w.unlock(held)
		var last int64
		for i, ch := range waiting {
			lease := w.got(ch)
			if lease.Token() <= last {
				w.Fatalf("turn %d has token %d, after %d", i, lease.Token(), last)
			}
			last = lease.Token()
			w.unlock(lease)
		}
		if n := a.d.Calls(memory.Leave); n != 1 {
			w.Errorf("the store was told of %d releases for 100 turns; want one", n)
		}
	})
}

func TestTurnsAreBoundedInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		stop, done := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					lease, err := a.Mutex("x").Lock(context.Background())
					if err != nil {
						w.Error(err)
						return
					}
					<-time.After(100 * time.Microsecond)
					w.unlock(lease)
				}
			})
		}
		go func() { wg.Wait(); close(done) }()
		for range 20 {
			start := time.Now()
			lease := w.lock(b.Mutex("x"))
			if took := time.Since(start); took > 3*time.Millisecond {
				w.Errorf("another process waited %v; want about the 2ms of a turn", took)
			}
			w.unlock(lease)
			<-time.After(time.Millisecond)
		}
		close(stop)
		<-done
	})
}

func TestTurnsAreBoundedInNumber(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(&stile.Options{Turn: time.Hour})
		l := a.Mutex("x").With(stile.LockOptions{Linger: time.Second})
		first := w.lock(l)
		w.unlock(first)
		var last int64
		for range engine.Turns + 5 {
			lease := w.lock(l)
			if lease.Token() <= last {
				w.Fatalf("token %d after %d", lease.Token(), last)
			}
			last = lease.Token()
			w.unlock(lease)
		}
		if n := a.d.Calls(memory.Enter); n != 2 {
			w.Errorf("%d claims for %d turns; want 2", n, engine.Turns+6)
		}
		other := w.lock(w.join(nil).Mutex("x"))
		if other.Token() <= last {
			w.Errorf("another process has token %d, after %d", other.Token(), last)
		}
		w.unlock(other)
	})
}

// TestProcessQueuesWhileItHolds checks that a process whose turn is over enters the store's queue for the next turn before
// it has released the last, so that later clients do not come first.
func TestProcessQueuesWhileItHolds(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("x"))
		own := w.inLine(w.Context(), a.Mutex("x"))
		pass(5 * time.Millisecond)
		other := w.inLine(w.Context(), b.Mutex("x"))
		pass(time.Minute)
		w.unlock(held)
		next := w.got(own)
		w.waits(other)
		w.unlock(next)
		w.unlock(w.got(other))
	})
}

// TestReclaimSparesOneself lets a process queue for its next turn while it holds: with Reclaim, too, it must not remove its
// own claim.
func TestReclaimSparesOneself(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		job := a.Mutex("x").With(stile.LockOptions{Owner: "nightly", Reclaim: true})
		held := w.lock(job)
		next := w.inLine(w.Context(), job)
		pass(time.Minute)
		w.waits(next)
		w.unlock(held)
		w.unlock(w.got(next))
	})
}

func TestCancelledWaiterPassesThePlaceOn(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.join(nil), w.join(nil), w.join(nil)
		held := w.lock(b.Mutex("x"))
		ctx, cancel := context.WithCancelCause(w.Context())
		first := w.inLine(ctx, a.Mutex("x"))
		second := w.inLine(w.Context(), a.Mutex("x"))
		behind := w.inLine(w.Context(), c.Mutex("x"))
		cancel(errEnough)
		if r := <-first; !errors.Is(r.err, errEnough) {
			w.Errorf("got %v", r.err)
		}
		w.unlock(held)
		lease := w.got(second) // in the place that the first had taken
		w.waits(behind)
		w.unlock(lease)
		w.unlock(w.got(behind))
	})
}

func TestTriesBesideWaiters(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, After: time.Second})
		first := w.inLine(w.Context(), a.Mutex("x")) // without an answer yet
		tried := make(chan error, 1)
		go func() {
			_, err := a.Mutex("x").TryLock(w.Context())
			tried <- err
		}()
		pass(2 * time.Second)
		lease := w.got(first)
		if err := <-tried; !errors.Is(err, stile.ErrHeld) {
			w.Errorf("a try beside one that got it: %v; want ErrHeld", err)
		}
		w.unlock(lease)

		// Of tries at the same time one gets the lock.
		var errs []error
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				lease, err := a.Mutex("x").TryLock(w.Context())
				if err == nil {
					<-time.After(time.Second)
					w.unlock(lease)
				}
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		wg.Wait()
		if n := len(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, stile.ErrHeld) })); n != 1 {
			w.Errorf("%d of 10 tries got it, or failed in another way; want 1", n)
		}

		// Readers that try at the same time share.
		a.d.Inject(memory.Fault{Verb: memory.Enter, After: time.Second})
		leases := make(chan *stile.Lease, 2)
		for range 2 {
			go func() {
				lease, err := a.Reader("x").TryLock(w.Context())
				if err != nil {
					w.Errorf("a reader's try beside another: %v", err)
				}
				leases <- lease
			}()
		}
		w.unlock(<-leases)
		w.unlock(<-leases)
	})
}

// TestSimulation lets several processes, with connections that fail in every way, compete for a name, and checks at every
// moment that at most one of them may believe that it holds, and that tokens rise.
func TestSimulation(t *testing.T) {
	for seed := range int64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) { simulate(w, newRand(seed)) })
		})
	}
}
