package sim_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A lease ends in the client before the store gets the Leave: from then on others may hold the lock.
func TestLeaseEndsBeforeTheStoreIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x"))
		ctx := lease.Context()
		a.d.Inject(memory.Fault{Verb: memory.Leave, After: 2 * time.Second})
		unlocked := make(chan error, 1)
		go func() { unlocked <- lease.Unlock() }()
		synctest.Wait()
		if ctx.Err() == nil || !errors.Is(lease.Check(), stile.ErrReleased) {
			w.Errorf("while the store is told, the lease is %v, and its context says %v; want both over", lease.State(), ctx.Err())
		}
		if err := <-unlocked; err != nil {
			w.Error(err)
		}
	})
}

// The client subtracts the margin from the time for which it trusts a lease.
func TestMarginIsTakenOff(t *testing.T) {
	for margin, want := range map[time.Duration]time.Duration{0: time.Second, 2 * time.Second: 2 * time.Second} {
		inWorld(t, func(w *world) {
			a := w.join(&stile.Options{Margin: margin})
			sent := time.Now()
			lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
			if left := lease.Deadline().Sub(sent); left > ttl-want {
				w.Errorf("margin %v: trusted for %v of %v; want at least %v less", margin, left, ttl, want)
			}
			w.unlock(lease)
		})
	}
}

// The answer to an earlier renewal does not answer the Unlock after it.
func TestRenewalDoesNotAnswerForTheRelease(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Before: time.Second})
		a.d.Inject(memory.Fault{Verb: memory.Leave, Times: -1, Hang: true})
		for a.d.Calls(memory.Renew) == 0 {
			pass(time.Millisecond) // until the renewal is under way
		}
		var err error
		if d := took(func() { err = lease.Unlock() }); d != 5*time.Second || !errors.Is(err, stile.ErrUnknown) {
			w.Errorf("it lasted %v: %v; want ErrUnknown after Patience", d, err)
		}
		a.d.Heal()
	})
}

// heap is a store without a queue.
type heap struct{ *memory.Driver }

func (h heap) Traits() driver.Traits {
	t := h.Driver.Traits()
	t.Ordered = false
	return t
}

// A waiter behind an old claim of its own client has Patience once, for that claim and for its own.
func TestPatienceIsOneBehindOurOwnClaims(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.over(nil, func(d *memory.Driver) driver.Driver { return heap{d} })
		a.d.SetLink(memory.Silent)
		if _, err := a.Mutex("x").LockWithin(w.Context(), time.Second); err == nil {
			w.Fatal("a silent store granted a lock")
		}
		pass(2 * time.Second)
		var err error
		if d := took(func() { _, err = a.Mutex("x").Lock(w.Context()) }); d > 5*time.Second || !errors.Is(err, stile.ErrUnreachable) {
			w.Errorf("it lasted %v: %v; want ErrUnreachable after Patience", d, err)
		}
	})
}
