package sim_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

func TestLeaseIsRenewedWhileItsClientLives(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: 3 * time.Second}))
		other := w.inLine(w.Context(), b.Mutex("x"))
		pass(time.Hour)
		w.waits(other)
		if err := lease.Check(); err != nil || lease.State() != stile.StateHeld {
			w.Errorf("after an hour: %v, %v", err, lease.State())
		}
		// A third of the ttl each, less the jitter.
		if n := a.d.Calls(memory.Renew); n < 3600 || n > 3730 {
			w.Errorf("%d renewals in an hour; want about one a second", n)
		}
		if left := time.Until(lease.Deadline()); left < time.Second || left > 3*time.Second {
			w.Errorf("the deadline is %v away", left)
		}
		w.unlock(lease)
		w.unlock(w.got(other))
	})
}

// The client renews leases together when the first of them is due, not much before a third of the ttl.
func TestManyLeasesAreRenewedAsOftenAsOne(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		leases := make([]*stile.Lease, 100)
		for i := range leases {
			leases[i] = w.lock(a.Mutex(fmt.Sprint(i)).With(stile.LockOptions{TTL: 3 * time.Second}))
		}
		pass(10 * time.Minute)
		if n := a.d.Calls(memory.Renew); n < 600 || n > 625 {
			w.Errorf("%d renewals of all in ten minutes; want about one a second", n)
		}
		for _, lease := range leases {
			w.unlock(lease)
		}
	})
}

func TestUnlockTellsHowItEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x"))
		ctx := lease.Context()
		w.unlock(lease)
		if err := lease.Unlock(); !errors.Is(err, stile.ErrReleased) {
			w.Errorf("a second time: %v; want ErrReleased", err)
		}
		if err := lease.Check(); !errors.Is(err, stile.ErrReleased) || lease.State() != stile.StateReleased {
			w.Errorf("check: %v, %v; want released", err, lease.State())
		}
		if !errors.Is(context.Cause(ctx), stile.ErrReleased) || !errors.Is(context.Cause(lease.Context()), stile.ErrReleased) {
			w.Errorf("the context's cause is %v; want ErrReleased", context.Cause(ctx))
		}
		if n := a.d.Calls(memory.Leave); n != 1 {
			w.Errorf("the store was told %d times; want once", n)
		}

		lease = w.lock(a.Mutex("x"))
		if _, err := a.d.Steal("x", time.Second); err != nil {
			w.Fatal(err)
		}
		err := lease.Unlock()
		var lost *stile.LostError
		if !errors.As(err, &lost) || lost.Reason != stile.ReasonRemoved {
			w.Errorf("after a loss that nobody had noticed: %v; want ErrLost, removed", err)
		}
		if err := lease.Unlock(); !errors.Is(err, stile.ErrReleased) {
			w.Errorf("a second time: %v; want ErrReleased", err)
		}
	})
}

func TestUnlockWorksWhenTheCallersContextHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		ctx, cancel := context.WithCancel(w.Context())
		lease := lockIn(w, ctx, a.Mutex("x"))
		cancel()
		if err := lease.Check(); err != nil {
			w.Errorf("the end of the context that it was acquired with ended the lease: %v", err)
		}
		if err := lease.Context().Err(); err != nil {
			w.Errorf("or its context: %v", err)
		}
		w.unlock(lease)
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left", n)
		}
	})
}

func TestUnlockAfterKeepsTheLockTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Mutex("x"))
		other, own := w.inLine(w.Context(), b.Mutex("x")), w.inLine(w.Context(), a.Mutex("x"))
		if err := lease.UnlockAfter(time.Minute); err != nil {
			w.Fatal(err)
		}
		if err := lease.Check(); !errors.Is(err, stile.ErrReleased) {
			w.Errorf("check: %v; want ErrReleased", err)
		}
		pass(59 * time.Second)
		w.waits(other)
		w.waits(own)
		pass(1100 * time.Millisecond)
		for range 2 {
			select {
			case r := <-other:
				w.unlock(r.Lease)
			case r := <-own:
				w.unlock(r.Lease)
			}
		}
	})
}

func TestMaxHold(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{MaxHold: time.Minute}))
		ctx := lease.Context()
		other := w.inLine(w.Context(), b.Mutex("x"))
		pass(59 * time.Second)
		if err := lease.Check(); err != nil {
			w.Errorf("before its time: %v", err)
		}
		if left := time.Until(lease.Deadline()); left != time.Second {
			w.Errorf("the deadline is %v away; want the second that is left", left)
		}
		<-ctx.Done()
		if left := time.Until(lease.Deadline()); left > 0 {
			w.Errorf("the deadline of a lost lease is %v away", left)
		}
		var lost *stile.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != stile.ReasonHeldLong {
			w.Errorf("the cause is %v; want held long", context.Cause(ctx))
		}
		w.waits(other) // the work under it may still go on
		pass(15 * time.Second)
		w.unlock(w.got(other))
		if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("unlock: %v; want ErrLost", err)
		}
	})
}

func TestLinger(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		l := a.Mutex("x").With(stile.LockOptions{Linger: 50 * time.Millisecond})
		first := w.lock(l)
		w.unlock(first)
		pass(10 * time.Millisecond)
		second := w.lock(l)
		if n := a.d.Calls(memory.Enter); n != 1 {
			w.Errorf("the store was asked %d times for two leases; want once", n)
		}
		if second.Token() <= first.Token() {
			w.Errorf("token %d after %d", second.Token(), first.Token())
		}
		w.unlock(second)
		other := w.inLine(w.Context(), b.Mutex("x"))
		pass(40 * time.Millisecond)
		w.waits(other)
		pass(11 * time.Millisecond)
		w.unlock(w.got(other))

		// A hot loop keeps others out no longer than the turn and the linger allow.
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				lease, err := l.Lock(context.Background())
				if err != nil {
					w.Error(err)
					return
				}
				<-time.After(time.Millisecond)
				w.unlock(lease)
			}
		}()
		other = w.inLine(w.Context(), b.Mutex("x"))
		pass(60 * time.Millisecond)
		w.unlock(w.got(other))
		close(stop)
		<-done
	})
}

func TestLockDelayFollowsAnUncleanLossOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		delayed := a.Mutex("x").With(stile.LockOptions{TTL: 3 * time.Second, LockDelay: time.Minute})
		w.unlock(w.lock(delayed))
		w.unlock(w.lock(b.Mutex("x"))) // at once, or this test would stand still

		lease := w.lock(delayed)
		a.d.SetLink(memory.Silent)
		start := time.Now()
		other := w.inLine(w.Context(), b.Mutex("x"))
		<-lease.Context().Done()
		w.unlock((<-other).Lease)
		if took := time.Since(start); took < time.Minute+time.Second || took > time.Minute+4*time.Second {
			w.Errorf("others had the lock after %v; want a minute after the lease ran out", took)
		}
		a.d.Heal()
		w.unlockLost(lease)
	})
}

func TestCloseEndsWaitersAndLeases(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Mutex("x"))
		idle := w.lock(a.Mutex("y").With(stile.LockOptions{Linger: 10 * time.Second}))
		w.unlock(idle)
		local := w.inLine(w.Context(), a.Mutex("x"))
		held := w.lock(b.Mutex("z"))
		remote := w.inLine(w.Context(), a.Mutex("z"))
		if err := a.Close(); err != nil {
			w.Fatal(err)
		}
		for _, ch := range []<-chan result{local, remote} {
			if r := <-ch; !errors.Is(r.err, stile.ErrClosed) {
				w.Errorf("a waiter got %v; want ErrClosed", r.err)
			}
		}
		var lost *stile.LostError
		if err := lease.Check(); !errors.As(err, &lost) || lost.Reason != stile.ReasonShutdown {
			w.Errorf("the lease: %v; want lost, its client was closed", err)
		}
		if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("unlock after close: %v; want ErrLost", err)
		}
		if got := [3]int{w.queued("x"), w.queued("y"), w.queued("z")}; got != [3]int{1, 0, 1} {
			w.Errorf("claims left: %v; want what was held to run out, and nothing else of the closed client", got)
		}
		pass(16 * time.Second)
		if n := w.queued("x"); n != 0 {
			w.Errorf("what was held did not run out: %d", n)
		}
		w.unlock(held)
	})
}

func TestForgottenLeaseIsReported(t *testing.T) {
	leaks := make(chan stile.Event, 10)
	c, err := stile.New(memory.New(), &stile.Options{Observer: func(e stile.Event) {
		if e.Kind == stile.EventLeaked {
			leaks <- e
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	forget := func() {
		lease, err := c.Mutex("x").Lock(t.Context()) // the line that the event names
		if err != nil {
			t.Fatal(err)
		}
		_ = lease.Context()
		kept, err := c.Mutex("y").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Unlock(); err != nil {
			t.Error(err)
		}
	}
	forget()
	var e stile.Event
	for deadline := time.After(time.Minute); e.Kind == 0; {
		runtime.GC()
		select {
		case e = <-leaks:
		case <-deadline:
			t.Fatal("nobody was told")
		default:
			runtime.Gosched()
		}
	}
	if e.Name != "x" || !strings.Contains(e.Taken, "lease_test.go:") {
		t.Errorf("got %+v; want x and the line", e)
	}
	if _, err := c.Mutex("x").TryLock(t.Context()); !errors.Is(err, stile.ErrHeld) {
		t.Errorf("a forgotten lease was released under whoever works on: %v", err)
	}
}

func TestJoin(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		ab := stile.Join(a.Mutex("2"), a.Reader("1"))
		lease := w.lock(ab)
		if lease.Token() != 0 || lease.Name() != "1" {
			w.Errorf("token %d, name %q", lease.Token(), lease.Name())
		}
		parts := lease.Parts()
		if len(parts) != 2 || parts[0].Name() != "1" || parts[1].Name() != "2" || parts[0].Token() == 0 || parts[1].Token() == 0 {
			w.Errorf("parts: %v", parts)
		}
		if _, err := stile.Join(b.Mutex("0"), b.Mutex("2")).TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("a try: %v; want ErrHeld", err)
		}
		if n := w.queued("0"); n != 0 {
			w.Errorf("it kept a part: %d claims", n)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := stile.Join(b.Mutex("0"), b.Mutex("2")).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			w.Errorf("one deadline for all: %v after %v", err, time.Since(start))
		}
		pass(time.Second)
		if got := [2]int{w.queued("0"), w.queued("2")}; got != [2]int{0, 1} {
			w.Errorf("claims: %v; want it to have given all back", got)
		}
		ctx = lease.Context()
		if _, err := a.d.Steal("2", time.Second); err != nil {
			w.Fatal(err)
		}
		<-ctx.Done()
		if err := lease.Check(); !errors.Is(err, stile.ErrLost) || lease.State() != stile.StateLost {
			w.Errorf("losing one part is losing all: %v", err)
		}
		if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("unlock: %v; want ErrLost", err)
		}
		if n := w.queued("1"); n != 0 {
			w.Errorf("a part is still held: %d", n)
		}
	})
}

func TestJoinedInAnyOrderNeverWaitForEachOther(t *testing.T) {
	inWorld(t, func(w *world) {
		names := []string{"a", "b", "c"}
		done := make(chan error)
		for i := range 6 {
			p := w.join(nil)
			go func() {
				var locks []*stile.Lock
				for j := range names {
					locks = append(locks, p.Mutex(names[(i+j*(1+i%2))%3]))
				}
				var err error
				for range 20 {
					err = errors.Join(err, stile.Join(locks...).Do(w.Context(), func(context.Context) error {
						<-time.After(time.Millisecond)
						return nil
					}))
				}
				done <- err
			}()
		}
		for range 6 {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
		synctest.Wait()
	})
}
