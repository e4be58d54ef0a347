package sim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// took returns how long f lasts.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// lasts returns how long a call lasts, whatever it answers.
func lasts(f func() error) time.Duration {
	return took(func() { _ = f() }) // other tests look at the answer
}

// The end of a caller's context ends the wait of that caller and no other, whatever its cause says.
func TestOneCallersEndIsNobodyElses(t *testing.T) {
	for _, cause := range []error{
		errEnough, context.DeadlineExceeded, stile.ErrClosed, stile.ErrUnsupported, stile.ErrForeign,
		fmt.Errorf("wrapped: %w", stile.ErrGone), &driver.CapacityError{Have: 1, Want: 2},
		driver.Unreachable(errEnough), &stile.LostError{Reason: stile.ReasonRemoved}, &stile.HeldError{},
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.join(nil)
				a.d.Inject(memory.Fault{Verb: memory.Enter, Before: 2 * time.Second})
				ctx, cancel := context.WithCancelCause(w.Context())
				first := w.inLine(ctx, a.Mutex("x"))
				second := w.inLine(w.Context(), a.Mutex("x"))
				pass(time.Second)
				cancel(cause)
				synctest.Wait()
				if r := <-first; !errors.Is(r.err, cause) {
					w.Errorf("the first got %v; want its cause", r.err)
				}
				pass(2 * time.Second)
				w.unlock(w.got(second))
			})
		})
	}
}

// A silent store makes the call fail with ErrUnreachable after Patience, not with the end of the client's own context.
func TestSilenceIsUnreachable(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.SetLink(memory.Silent)
		var err error
		if d := took(func() { _, err = a.Mutex("x").Lock(w.Context()) }); d != 5*time.Second {
			w.Errorf("it lasted %v; want Patience", d)
		}
		if !errors.Is(err, stile.ErrUnreachable) || !errors.Is(err, stile.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("got %v; want ErrUnreachable, with a trace that is not known of", err)
		}
	})
}

// A long is a store whose List takes 30 s, and reports progress every 3 s until it falls silent.
type long struct {
	*memory.Driver
	silentAfter time.Duration
}

func (l *long) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	for passed := time.Duration(0); passed < 30*time.Second; passed += 3 * time.Second {
		if passed >= l.silentAfter {
			<-ctx.Done()
			return nil, driver.Ended(ctx, true)
		}
		pass(3 * time.Second)
		driver.Heard(ctx, 1000)
	}
	return l.Driver.List(ctx, q)
}

// A listing with progress lasts as long as it needs; one without ends after Patience.
func TestPatienceIsForSilence(t *testing.T) {
	inWorld(t, func(w *world) {
		for silentAfter, want := range map[time.Duration]time.Duration{time.Hour: 30 * time.Second, 9 * time.Second: 14 * time.Second} {
			c, err := stile.New(&long{memory.New(), silentAfter}, nil)
			if err != nil {
				w.Fatal(err)
			}
			if d := took(func() { _, err = c.List(w.Context(), "") }); d != want {
				w.Errorf("silent after %v: it lasted %v; want %v", silentAfter, d, want)
			}
			if silent := silentAfter < want; errors.Is(err, stile.ErrUnreachable) != silent || !silent && err != nil {
				w.Errorf("silent after %v: %v; want ErrUnreachable if it is silent", silentAfter, err)
			}
			c.Close()
		}
	})
}

// A waiter in the store's queue asks for twelve times Patience.
func TestQueuedWaiterOutlastsAnOutage(t *testing.T) {
	for _, link := range []memory.Link{memory.Silent, memory.Refused} {
		inWorld(t, func(w *world) {
			a, b := w.join(nil), w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Hour}})
			held := w.lock(b.Mutex("x"))
			waits := w.inLine(w.Context(), a.Mutex("x"))
			a.d.SetLink(link)
			pass(59 * time.Second)
			w.waits(waits)
			pass(6 * time.Second)
			if r := <-waits; !errors.Is(r.err, stile.ErrUnreachable) {
				w.Errorf("got %v; want ErrUnreachable", r.err)
			}
			w.unlock(held)
		})
	}
}

// Unlock returns ErrUnknown after Patience if the store does not answer.
func TestUnlockOfASilentStoreIsUnknown(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x"))
		a.d.SetLink(memory.Silent)
		var err error
		if d := took(func() { err = lease.Unlock() }); d != 5*time.Second {
			w.Errorf("it lasted %v; want Patience", d)
		}
		if !errors.Is(err, stile.ErrUnknown) || !errors.Is(err, stile.ErrUnreachable) {
			w.Errorf("got %v; want ErrUnknown", err)
		}
	})
}

// Each call has all of Patience, once.
func TestPatienceIsEachCallersOwn(t *testing.T) {
	for _, link := range []memory.Link{memory.Silent, memory.Refused} {
		inWorld(t, func(w *world) {
			a := w.join(nil)
			a.d.SetLink(link)
			lasts := func() chan time.Duration {
				ch := make(chan time.Duration, 1)
				go func() {
					ch <- took(func() {
						if _, err := a.Mutex("x").Lock(w.Context()); !errors.Is(err, stile.ErrUnreachable) {
							w.Errorf("got %v; want ErrUnreachable", err)
						}
					})
				}()
				return ch
			}
			first := lasts()
			pass(4880 * time.Millisecond)
			second := lasts()
			if d := <-first; d < 4*time.Second || d > 5*time.Second {
				w.Errorf("the first call lasted %v; want Patience", d)
			}
			if d := <-second; d < 4*time.Second || d > 5*time.Second {
				w.Errorf("a call that began 120 ms before another's patience was over lasted %v; want Patience", d)
			}
		})
	}
}

// A renewal under way delays neither Unlock nor Detach.
func TestReleaseDoesNotWaitForARenewal(t *testing.T) {
	for _, op := range []string{"unlock", "detach"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Hour}})
				lease := w.lock(a.Mutex("x"))
				a.d.Inject(memory.Fault{Verb: memory.Renew, Hang: true})
				pass(20*time.Minute + time.Second)
				if a.d.Calls(memory.Renew) != 1 {
					w.Fatal("no renewal is out")
				}
				var err error
				d := took(func() {
					if op == "unlock" {
						err = lease.Unlock()
					} else {
						_, err = lease.Detach(w.Context())
					}
				})
				if err != nil || d != 0 {
					w.Errorf("it lasted %v, %v; want it done at once", d, err)
				}
			})
		})
	}
}

// A joined lock releases its parts together, and spends Patience once on a silent store.
func TestJoinedUnlockSpendsPatienceOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(stile.Join(a.Mutex("x"), a.Mutex("y"), a.Mutex("z")))
		a.d.SetLink(memory.Silent)
		var err error
		if d := took(func() { err = lease.Unlock() }); d != 5*time.Second || !errors.Is(err, stile.ErrUnknown) {
			w.Errorf("it lasted %v, %v; want Patience and ErrUnknown", d, err)
		}
	})
}
