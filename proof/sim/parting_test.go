package sim_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// A program may call Detach and Unlock at once: one of them gets the lease, and the other an error.
func TestDetachBesideUnlock(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Second} {
		inWorld(t, func(w *world) {
			a, b := w.join(nil), w.join(nil)
			for range 50 {
				lease := w.lock(a.Mutex("x"))
				a.d.Inject(memory.Fault{Verb: memory.Renew, After: slow})
				unlocked := make(chan error, 1)
				ctx := lease.Context()
				go func() {
					<-ctx.Done()
					unlocked <- lease.Unlock()
				}()
				h, err := lease.Detach(w.Context())
				if err != nil {
					w.Fatalf("detach: %v", err)
				}
				if err := <-unlocked; !errors.Is(err, stile.ErrReleased) {
					w.Fatalf("unlock of a detached lease: %v; want ErrReleased", err)
				}
				a.d.Heal()
				again, err := b.Attach(w.Context(), h)
				if err != nil {
					w.Fatalf("attach: %v", err)
				}
				w.unlock(again)
			}
		})
	}
}

// The same without a pause: Unlock starts in the moment of the detach.
func TestDetachRacesUnlock(t *testing.T) {
	c, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3000 {
		lease, err := c.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlocked := make(chan error, 1)
		go func() {
			for lease.Check() == nil {
				runtime.Gosched()
			}
			unlocked <- lease.Unlock()
		}()
		h, err := lease.Detach(t.Context())
		if err != nil {
			t.Fatalf("detach: %v", err)
		}
		if err := <-unlocked; !errors.Is(err, stile.ErrReleased) {
			t.Fatalf("unlock of a detached lease: %v; want ErrReleased", err)
		}
		again, err := c.Attach(t.Context(), h)
		if err != nil {
			t.Fatalf("attach: %v", err)
		}
		if err := again.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// Unlock during a Detach gets the lease; Detach reports that it came too late.
func TestUnlockDuringDetach(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x"))
		a.d.Inject(memory.Fault{Verb: memory.Renew, After: time.Second})
		detached := make(chan error, 1)
		go func() {
			_, err := lease.Detach(w.Context())
			detached <- err
		}()
		synctest.Wait()
		w.unlock(lease)
		if err := <-detached; !errors.Is(err, stile.ErrReleased) {
			w.Errorf("detach: %v; want ErrReleased", err)
		}
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left", n)
		}
	})
}

// MaxHold continues through Detach and Attach: the handle carries the rest of it.
func TestHandleKeepsMaxHold(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{MaxHold: time.Hour}))
		pass(20 * time.Minute)
		a.d.Inject(memory.Fault{Verb: memory.Renew, After: 2 * time.Second}) // the client holds until Detach returns
		h, err := lease.Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if want := 40*time.Minute - 2*time.Second; h.MaxHold != want {
			w.Errorf("the handle has %v left; want %v", h.MaxHold, want)
		}
		again, err := b.Attach(w.Context(), h)
		if err != nil {
			w.Fatal(err)
		}
		pass(39 * time.Minute)
		if err := again.Check(); err != nil {
			w.Errorf("before MaxHold is over: %v", err)
		}
		pass(2 * time.Minute)
		var lost *stile.LostError
		if err := again.Unlock(); !errors.As(err, &lost) || lost.Reason != stile.ReasonHeldLong {
			w.Errorf("after it: %v; want it lost, since it was held for MaxHold", err)
		}
	})
}
