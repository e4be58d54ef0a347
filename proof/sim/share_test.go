package sim_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// A refused try leaves no claim behind, also if a waiter that gave up had sent its request.
func TestRefusedTryLeavesNoGhost(t *testing.T) {
	for _, kind := range []string{"writer", "reader", "permits"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.join(nil), w.join(nil)
				all, mine := b.Writer("x"), a.Writer("x")
				switch kind {
				case "reader":
					mine = a.Reader("x")
				case "permits":
					all, mine = b.Permit("x", 2, 2), a.Permit("x", 1, 2)
				}
				held := w.lock(all)
				a.d.Inject(memory.Fault{Verb: memory.Enter, Before: 2 * time.Second})
				ctx, cancel := context.WithCancelCause(w.Context())
				gone := w.inLine(ctx, mine)
				try := make(chan error, 1)
				go func() {
					_, err := mine.TryLock(w.Context())
					try <- err
				}()
				pass(time.Second)
				if kind != "permits" {
					cancel(errEnough)
				}
				if err := <-try; !errors.Is(err, stile.ErrHeld) {
					w.Errorf("got %v; want ErrHeld", err)
				}
				pass(time.Second)
				if n := w.queued("x"); kind == "permits" && n != 2 {
					w.Errorf("%d claims stand in the store; want the holder's and the waiter's", n)
				}
				cancel(errEnough)
				<-gone
				pass(10 * time.Second)
				if n := w.queued("x"); n != 1 {
					w.Errorf("%d claims stand in the store; want the holder's", n)
				}
				w.unlock(held)
				pass(time.Second)
				if n := w.queued("x"); n != 0 || names(a) != 0 {
					w.Errorf("%d claims stand in the store, and the client minds %d names; want none", n, names(a))
				}
			})
		})
	}
}

// MaxHold ends its own lease, not the other leases of the claim.
func TestMaxHoldIsOneLeasesOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		long := w.lock(a.Reader("x"))
		short := w.lock(a.Reader("x").With(stile.LockOptions{MaxHold: 10 * time.Second}))
		late := w.lock(a.Reader("x"))
		pass(11 * time.Second)
		if err := short.Check(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("after its MaxHold: %v; want ErrLost", err)
		}
		pass(time.Minute)
		for _, l := range []*stile.Lease{long, late} {
			if err := l.Check(); err != nil {
				w.Errorf("another reader's lease: %v", err)
			}
		}
		if _, err := b.Writer("x").TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("a writer beside readers got %v; want ErrHeld", err)
		}
		w.unlock(long)
		w.unlock(late)
		if err := short.Unlock(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("unlock of the one that was held too long: %v; want ErrLost", err)
		}
	})
}

// A lingering unused claim does not block its own process.
func TestLingeringClaimMakesWayForItsOwnProcess(t *testing.T) {
	kinds := map[string]func(*peer) *stile.Lock{
		"writer":      func(p *peer) *stile.Lock { return p.Writer("x") },
		"reader":      func(p *peer) *stile.Lock { return p.Reader("x") },
		"other terms": func(p *peer) *stile.Lock { return p.Writer("x").With(stile.LockOptions{Reason: "another"}) },
	}
	for first, lingers := range kinds {
		for second, wants := range kinds {
			inWorld(t, func(w *world) {
				a := w.join(nil)
				w.unlock(w.lock(lingers(a).With(stile.LockOptions{Linger: 10 * time.Second})))
				if n := w.queued("x"); n != 1 {
					w.Fatalf("%d claims; want the one that lingers", n)
				}
				lease, err := wants(a).TryLock(w.Context())
				if err != nil {
					w.Fatalf("%s, then %s: %v", first, second, err)
				}
				w.unlock(lease)
			})
		}
	}
}

// Re-entering leaves nothing in memory until the outer lease ends.
func TestReenteringLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(&stile.Options{LockOptions: stile.LockOptions{Reentrant: true}})
		again := func(ctx context.Context, times int) {
			for range times {
				if err := a.Mutex("x").Do(ctx, func(context.Context) error { return nil }); err != nil {
					w.Fatal(err)
				}
			}
		}
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		err := a.Mutex("x").Do(w.Context(), func(ctx context.Context) error {
			again(ctx, 1000)
			before := heap()
			again(ctx, 20_000)
			if after := heap(); after > before+500_000 {
				w.Errorf("20,000 inner calls left %d bytes", after-before)
			}
			return nil
		})
		if err != nil {
			w.Error(err)
		}
	})
}

// The longest UnlockAfter of the leases of a hold counts, from its call.
func TestInnerUnlockAfterCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(&stile.Options{LockOptions: stile.LockOptions{Reentrant: true}}), w.join(nil)
		outer := w.lock(a.Mutex("x"))
		inner, err := a.Mutex("x").Lock(outer.Context())
		if err != nil {
			w.Fatal(err)
		}
		if err := inner.UnlockAfter(time.Hour); err != nil {
			w.Error(err)
		}
		pass(30 * time.Minute)
		w.unlock(outer)
		if _, err := b.Mutex("x").TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("before the time is over: %v; want ErrHeld", err)
		}
		pass(29 * time.Minute)
		if _, err := b.Mutex("x").TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("a minute before the time is over: %v; want ErrHeld", err)
		}
		pass(time.Minute + time.Second)
		lease, err := b.Mutex("x").TryLock(w.Context())
		if err != nil {
			w.Fatalf("after it: %v", err)
		}
		w.unlock(lease)
	})
}

// The time of an inner UnlockAfter reaches the store with the last release. If that fails, the last caller gets the error.
func TestInnerUnlockAfterFailsWithTheLast(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(&stile.Options{LockOptions: stile.LockOptions{Reentrant: true}}), w.join(nil)
		outer := w.lock(a.Mutex("x"))
		inner, err := a.Mutex("x").Lock(outer.Context())
		if err != nil {
			w.Fatal(err)
		}
		if err := inner.UnlockAfter(time.Hour); err != nil {
			w.Error(err)
		}
		a.d.SetLink(memory.Silent)
		if err := outer.Unlock(); !errors.Is(err, stile.ErrUnknown) {
			w.Errorf("the last release, which the store did not hear of: %v; want ErrUnknown", err)
		}
		pass(time.Minute)
		lease, err := b.Mutex("x").TryLock(w.Context())
		if err != nil {
			w.Fatalf("after the lease: %v", err)
		}
		w.unlock(lease)
	})
}

// A lease's context ends with that lease, although another lease of its hold goes on.
func TestContextEndsWithItsOwnLease(t *testing.T) {
	for _, first := range []string{"inner", "outer"} {
		t.Run(first, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.join(&stile.Options{LockOptions: stile.LockOptions{Reentrant: true}})
				goes := w.lock(a.Mutex("x"))
				stays, err := a.Mutex("x").Lock(goes.Context())
				if err != nil {
					w.Fatal(err)
				}
				if first == "inner" {
					goes, stays = stays, goes
				}
				ended, lasts := goes.Context(), stays.Context()
				w.unlock(goes)
				synctest.Wait()
				if err := context.Cause(ended); !errors.Is(err, stile.ErrReleased) {
					w.Errorf("the context of the released lease: %v; want ErrReleased", err)
				}
				if err := goes.Check(); !errors.Is(err, stile.ErrReleased) {
					w.Errorf("the released lease: %v; want ErrReleased", err)
				}
				if lasts.Err() != nil || stays.Check() != nil {
					w.Errorf("the other: %v, %v; want it held", context.Cause(lasts), stays.Check())
				}
				pass(time.Minute)
				if err := stays.Check(); err != nil {
					w.Errorf("the other, a minute later: %v", err)
				}
				w.unlock(stays)
			})
		})
	}
}

// A panic in the function of Do releases the lock, and continues.
func TestPanicInDoReleases(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		func() {
			defer func() {
				if got := recover(); got != "by design" {
					w.Errorf("recovered %v; want the function's panic", got)
				}
			}()
			err := a.Mutex("x").Do(w.Context(), func(context.Context) error { panic("by design") })
			w.Errorf("Do returned %v in place of the panic", err)
		}()
		lease, err := b.Mutex("x").TryLock(w.Context())
		if err != nil {
			w.Fatalf("after the panic: %v", err)
		}
		w.unlock(lease)
	})
}
