package sim_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// LockWithin returns in time on a silent store, and reports the silence.
func TestLockWithinOfAnUnreachableStore(t *testing.T) {
	for _, link := range []memory.Link{memory.Silent, memory.Refused} {
		inWorld(t, func(w *world) {
			a := w.join(nil)
			a.d.SetLink(link)
			var err error
			if d := took(func() { _, err = a.Mutex("x").LockWithin(w.Context(), time.Second) }); d != time.Second {
				w.Errorf("it lasted %v; want a second", d)
			}
			if !errors.Is(err, stile.ErrUnreachable) || errors.Is(err, stile.ErrHeld) {
				w.Errorf("got %v; want ErrUnreachable", err)
			}
		})
	}
}

// After the store has gone away, the error of a waiter in its queue does not name the former holder.
func TestLockWithinOfAStoreThatWentAway(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(b.Mutex("x"))
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = a.Mutex("x").LockWithin(w.Context(), 8*time.Second)
		}()
		synctest.Wait()
		if n := w.queued("x"); n != 2 {
			w.Errorf("%d stand in the queue; want 2", n)
		}
		a.d.SetLink(memory.Refused)
		<-done
		if !errors.Is(err, stile.ErrUnreachable) || errors.Is(err, stile.ErrHeld) {
			w.Errorf("got %v; want ErrUnreachable", err)
		}
		a.d.SetLink(memory.Up)
		if err := held.Unlock(); err != nil {
			w.Error(err)
		}
	})
}

// A grant and the end of a wait may come at the same moment. Then the caller gets the lock or ErrHeld; the store did answer.
func TestLockWithinUntilTheGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		for range 1000 {
			held := w.lock(b.Mutex("x"))
			time.AfterFunc(time.Second, func() { w.unlock(held) })
			lease, err := a.Mutex("x").LockWithin(w.Context(), time.Second)
			if err == nil {
				err = lease.Unlock()
			}
			if err != nil && !errors.Is(err, stile.ErrHeld) {
				w.Fatalf("got %v; want the lock, or ErrHeld", err)
			}
			synctest.Wait()
		}
	})
}

// mute is a store that does not name the blocker to waiters.
type mute struct{ *memory.Driver }

func (m mute) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := m.Driver.Enter(ctx, c)
	p.Blocker = driver.ClaimInfo{}
	return p, err
}

// LockWithin names the holder, and does not wait long if the store does not.
func TestLockWithinAsksForTheHolderForASecond(t *testing.T) {
	for _, silent := range []bool{false, true} {
		inWorld(t, func(w *world) {
			b := w.join(&stile.Options{LockOptions: stile.LockOptions{Owner: "the other"}})
			a := w.over(nil, func(d *memory.Driver) driver.Driver { return mute{d} })
			held := w.lock(b.Mutex("x"))
			most := 3 * time.Second
			if silent {
				a.d.Inject(memory.Fault{Verb: memory.List, Times: -1, Hang: true})
				most += time.Second
			}
			var err error
			if d := took(func() { _, err = a.Mutex("x").LockWithin(w.Context(), 3*time.Second) }); d < 3*time.Second || d > most {
				w.Errorf("it lasted %v; want at most %v", d, most)
			}
			var by *stile.HeldError
			if !errors.As(err, &by) || !silent && by.By.Owner != "the other" {
				w.Errorf("got %v; want who holds it", err)
			}
			a.d.Heal()
			w.unlock(held)
		})
	}
}

// adrift is a store that keeps no claim: each Enter returns the next of these errors.
type adrift struct {
	*memory.Driver
	errs []error
	next int
}

func (a *adrift) Enter(context.Context, *driver.Claim) (driver.Place, error) {
	a.next++
	return driver.Place{}, a.errs[a.next%len(a.errs)]
}

// Lock ends with its context, and with Patience, whatever error a store returns instead of a place.
func TestLockEndsThoughTheStoreKeepsNoClaim(t *testing.T) {
	down := driver.Unreachable(errors.New("connection refused"))
	for _, errs := range [][]error{
		{driver.ErrGone}, {driver.ErrSession}, {down, driver.ErrSession}, {down, driver.ErrGone}, {down, down, down, driver.ErrSession},
	} {
		inWorld(t, func(w *world) {
			a := w.over(nil, func(d *memory.Driver) driver.Driver { return &adrift{Driver: d, errs: errs} })
			ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, errEnough)
			defer cancel()
			var err error
			if d := took(func() { _, err = a.Mutex("x").Lock(ctx) }); d != time.Second || !errors.Is(err, errEnough) {
				w.Errorf("%v: it lasted %v: %v; want it to end with its context", errs, d, err)
			}
			end, stop := context.WithTimeout(w.Context(), time.Minute)
			defer stop()
			d := took(func() { _, err = a.Mutex("y").Lock(end) })
			if d < 4*time.Second || d > 5*time.Second || !errors.Is(err, stile.ErrUnreachable) {
				w.Errorf("%v: it lasted %v: %v; want ErrUnreachable after Patience", errs, d, err)
			}
		})
	}
}

// A slowStart is a context that is slow when a call first uses it, as in a process that was stopped.
type slowStart struct {
	context.Context
	once sync.Once
}

func (s *slowStart) Value(key any) any {
	s.once.Do(func() { pass(2 * time.Second) })
	return s.Context.Value(key)
}

// If the time ends before the client asked the store, LockWithin still names the cause: a caller can distinguish a held lock
// from an unreachable store.
func TestLockWithinThatBeginsLate(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		w.lock(b.Mutex("held"))
		late := func() context.Context { return &slowStart{Context: w.Context()} }
		for _, l := range []*stile.Lock{a.Mutex("held"), stile.Join(a.Mutex("free"), a.Mutex("held"))} {
			if _, err := l.LockWithin(late(), time.Second); !errors.Is(err, stile.ErrHeld) {
				w.Errorf("got %v; want ErrHeld", err)
			}
		}
		lease, err := a.Mutex("free").LockWithin(late(), time.Second)
		if err != nil {
			w.Fatal(err)
		}
		w.unlock(lease)
		a.d.SetLink(memory.Silent)
		if d := took(func() { _, err = a.Mutex("free").LockWithin(late(), time.Second) }); d > 3*time.Second || !errors.Is(err, stile.ErrUnreachable) {
			w.Errorf("after %v: %v; want ErrUnreachable a second later", d, err)
		}
		a.d.Heal()
	})
}
