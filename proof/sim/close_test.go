package sim_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// Close at once ends a Lock whose first request has no answer yet, and lasts for Patience at most.
func TestCloseEndsWhoEnters(t *testing.T) {
	for _, late := range []bool{false, true} {
		inWorld(t, func(w *world) {
			a := w.join(nil)
			a.d.Inject(memory.Fault{Verb: memory.Enter, Times: -1, Hang: true, Lose: late})
			first := w.inLine(w.Context(), a.Mutex("x"))
			second := w.inLine(w.Context(), a.Mutex("x"))
			pass(time.Second)
			closed := make(chan time.Duration, 1)
			go func() { closed <- lasts(a.Close) }()
			synctest.Wait()
			for _, ch := range []<-chan result{first, second} {
				select {
				case r := <-ch:
					if !errors.Is(r.err, stile.ErrClosed) {
						w.Errorf("got %v; want ErrClosed", r.err)
					}
				default:
					w.Error("a Lock goes on after Close")
				}
			}
			if d := <-closed; d > 5*time.Second {
				w.Errorf("Close lasted %v; want Patience at most", d)
			}
			if n := w.queued("x"); n != 0 {
				w.Errorf("%d claims are left; want none, since the store answers", n)
			}
		})
	}
}

// Close at once ends an Attach and a Detach whose request has no answer yet.
func TestCloseEndsWhoAttachesOrDetaches(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		handle, err := w.lock(b.Mutex("left")).Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		lease := w.lock(a.Mutex("x"))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Times: -1, Hang: true})
		ended := make(chan error, 2)
		go func() { _, err := a.Attach(w.Context(), handle); ended <- err }()
		go func() { _, err := lease.Detach(w.Context()); ended <- err }()
		pass(time.Second)
		if len(ended) > 0 {
			w.Fatalf("one ended before Close: %v", <-ended)
		}
		if d := lasts(a.Close); d != 0 {
			w.Errorf("Close lasted %v; want it done at once", d)
		}
		var closed, lost int
		for range cap(ended) {
			switch err := <-ended; {
			case errors.Is(err, stile.ErrClosed):
				closed++
			case errors.Is(err, stile.ErrLost):
				lost++
			default:
				w.Errorf("got %v", err)
			}
		}
		if closed != 1 || lost != 1 {
			w.Errorf("%d ended with ErrClosed and %d with ErrLost; want Attach and Detach", closed, lost)
		}
	})
}

// Close takes Patience at most, although each of several Leaves, and the observer, could take all of it.
func TestCloseSpendsPatienceOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.join(nil)
		held := w.lock(b.Mutex("x"))
		d := w.store.Driver()
		blocked := make(chan struct{})
		c, err := stile.New(d, &stile.Options{Observer: func(stile.Event) { <-blocked }})
		if err != nil {
			w.Fatal(err)
		}
		w.unlock(w.lock(c.Mutex("lingers").With(stile.LockOptions{Linger: 10 * time.Second})))
		waits := w.inLine(w.Context(), c.Mutex("x"))
		busy := w.lock(c.Mutex("busy"))
		d.SetLink(memory.Silent)
		leaves := make(chan error, 1)
		go func() { leaves <- busy.Unlock() }()
		pass(4 * time.Second)
		if d := lasts(c.Close); d > 5*time.Second {
			w.Errorf("Close lasted %v; want Patience at most", d)
		}
		if r := <-waits; !errors.Is(r.err, stile.ErrClosed) {
			w.Errorf("got %v; want ErrClosed", r.err)
		}
		<-leaves //nolint:errcheck // its result does not matter here
		close(blocked)
		w.unlock(held)
	})
}

// After the store has acknowledged the unlock, an earlier lost reply costs Close no request.
func TestCloseDoesNotSweepForWhatLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, Lose: true})
		w.unlock(w.lock(a.Mutex("x")))
		if d := lasts(a.Close); d != 0 {
			w.Errorf("Close lasted %v; want it done at once", d)
		}
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left", n)
		}
	})
}

// A cancelled Lock costs a few requests, not one every moment until the end of Patience.
func TestCancelledLockCostsFewRequests(t *testing.T) {
	for _, f := range []memory.Fault{{Hang: true}, {Hang: true, Lose: true}, {Before: 3 * time.Second, Late: true}} {
		inWorld(t, func(w *world) {
			a := w.join(nil)
			f.Verb = memory.Enter
			a.d.Inject(f)
			if _, err := a.Mutex("x").LockWithin(w.Context(), time.Second); err == nil {
				w.Fatal("a store that is silent for longer granted a lock")
			}
			pass(time.Minute)
			if n := a.d.Calls(memory.Leave); n > 8 {
				w.Errorf("%d Leave requests; want a few", n)
			}
			if n := w.queued("x"); n != 0 {
				w.Errorf("%d claims are left", n)
			}
		})
	}
}
