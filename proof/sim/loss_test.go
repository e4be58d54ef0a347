package sim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/store/memory"
)

const ttl = 12 * time.Second

func TestLossEndsTheContextBeforeAnotherHolds(t *testing.T) {
	for name, fail := range map[string]memory.Fault{
		"hanging":        {Verb: memory.Renew, Times: -1, Hang: true},
		"request lost":   {Verb: memory.Renew, Times: -1, Drop: true},
		"refused":        {Verb: memory.Renew, Times: -1, Err: driver.Refused(errors.New("no permission"))},
		"late request":   {Verb: memory.Renew, Times: -1, Before: time.Hour},
		"late by little": {Verb: memory.Renew, Times: -1, Before: 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.join(nil), w.join(nil)
				lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
				start := time.Now()
				a.d.Inject(fail)
				other := w.inLine(w.Context(), b.Mutex("x"))
				ctx := lease.Context()
				select {
				case <-ctx.Done():
				case <-other:
					w.Fatal("another holds the lock, and the context goes on")
				}
				took := time.Since(start)
				if took > ttl*99/100 || took < ttl*8/10 {
					w.Errorf("it ended after %v of a lease of %v", took, ttl)
				}
				var lost *stile.LostError
				if !errors.As(context.Cause(ctx), &lost) || lost.Reason != stile.ReasonExpired || lost.Err == nil {
					w.Errorf("the cause is %v; want expired, with the failure", context.Cause(ctx))
				}
				if a.saw(stile.EventJeopardy) != 1 || a.saw(stile.EventLost) != 1 {
					w.Errorf("%d in jeopardy, %d lost; want one each", a.saw(stile.EventJeopardy), a.saw(stile.EventLost))
				}
				held := <-other
				if held.err != nil {
					w.Fatal(held.err)
				}
				a.d.Heal()
				if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
					w.Errorf("unlock: %v; want ErrLost", err)
				}
				pass(time.Second)
				if err := held.Check(); err != nil {
					w.Errorf("the late unlock touched the next holder: %v", err)
				}
				w.unlock(held.Lease)
			})
		})
	}
}

func TestLostReplyOfARenewalChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		before := lease.Deadline()
		a.d.Inject(memory.Fault{Verb: memory.Renew, Lose: true})
		for a.saw(stile.EventJeopardy) == 0 {
			pass(time.Millisecond)
		}
		if got := lease.Deadline(); !got.Equal(before) {
			w.Errorf("an answer that never came moved the deadline by %v", got.Sub(before))
		}
		if lease.State() != stile.StateJeopardy || lease.Check() != nil {
			w.Errorf("state %v, %v; want jeopardy, and to be trusted until the deadline", lease.State(), lease.Check())
		}
		pass(ttl / 6)
		if lease.State() != stile.StateHeld || !lease.Deadline().After(before) {
			w.Errorf("state %v; want held again, with a later deadline", lease.State())
		}
		w.unlock(lease)
	})
}

func TestAnAnswerThatComesTooLateDoesNotBringALeaseBack(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Times: -1, After: time.Hour})
		<-lease.Context().Done()
		a.d.Heal()
		pass(ttl)
		if err := lease.Check(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("check: %v; want ErrLost for good", err)
		}
		w.unlockLost(lease)
	})
}

func TestRemovedClaimIsLostAtTheNextRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		if _, err := a.d.Steal("x", time.Minute); err != nil {
			w.Fatal(err)
		}
		start := time.Now()
		<-lease.Context().Done()
		if took := time.Since(start); took > ttl/3 {
			w.Errorf("it took %v to be told; want a third of the ttl at most", took)
		}
		if e := a.last(stile.EventLost); e.Token != lease.Token() || !errors.Is(e.Err, stile.ErrLost) {
			w.Errorf("the observer was told %+v", e)
		}
		if _, err := a.Mutex("x").TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("the thief's claim is not respected: %v", err)
		}
		w.unlockLost(lease)
	})
}

func TestSuspensionIsSeen(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sleep time.Duration
		lost  bool
	}{{"short", 2 * time.Second, false}, {"long", 10 * time.Minute, true}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.join(nil)
				lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
				ctx := lease.Context()
				a.asleep.Add(int64(tt.sleep)) // the store's clock went on, this machine's timers stopped
				if err := lease.Check(); errors.Is(err, stile.ErrLost) != tt.lost {
					w.Errorf("at once after waking: %v", err)
				}
				pass(600 * time.Millisecond)
				var lost *stile.LostError
				if errors.As(context.Cause(ctx), &lost) != tt.lost || tt.lost && lost.Reason != stile.ReasonSuspended {
					w.Errorf("soon after waking: %v", context.Cause(ctx))
				}
				if err := lease.Unlock(); errors.Is(err, stile.ErrLost) != tt.lost || !tt.lost && err != nil {
					w.Errorf("unlock: %v", err)
				}
			})
		})
	}
}

func TestSuspendedHolderIsToldByItsTimersToo(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		ctx := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: 10 * time.Hour})).Context()
		pass(time.Second)
		a.asleep.Add(int64(20 * time.Hour))
		pass(501 * time.Millisecond)
		if context.Cause(ctx) == nil {
			w.Error("a lease that ran out during a sleep is found out only by a timer that slept too")
		}
	})
}

func TestOneSickNameDoesNotStallTheRest(t *testing.T) {
	inWorld(t, func(w *world) {
		d := &sick{Driver: w.store.Driver()}
		c, err := stile.New(d, nil)
		if err != nil {
			w.Fatal(err)
		}
		defer c.Close()
		o := stile.LockOptions{TTL: ttl}
		well, ill := w.lock(c.Mutex("well").With(o)), w.lock(c.Mutex("ill").With(o))
		pass(time.Minute)
		if err := well.Check(); err != nil {
			w.Errorf("the name that is well: %v", err)
		}
		if err := ill.Check(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("the name that is ill: %v; want ErrLost", err)
		}
		w.unlock(well)
		w.unlockLost(ill)
	})
}

// sick is a driver whose batches hang until their context ends if they have the name "ill" in them.
type sick struct{ *memory.Driver }

func (d *sick) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	all := make([]driver.Renewal, len(cs))
	hang := false
	for i, c := range cs {
		if c.Name == "ill" {
			all[i].Err, hang = context.DeadlineExceeded, true
			continue
		}
		all[i] = d.Driver.Renew(ctx, cs[i:i+1])[0]
	}
	if hang {
		<-ctx.Done()
	}
	return all
}

func TestReleaseDuringARenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Before: time.Second})
		for a.d.Calls(memory.Renew) == 0 {
			pass(time.Millisecond) // until the renewal is under way
		}
		start := time.Now()
		w.unlock(lease)
		if took := time.Since(start); took != 0 {
			w.Errorf("it left after %v: it waited for a renewal of no use any more", took)
		}
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left", n)
		}
		pass(ttl)
		if n := w.queued("x"); n != 0 || a.d.Calls(memory.Renew) != 1 {
			w.Errorf("a released lease lives on: %d claims, %d renewals", n, a.d.Calls(memory.Renew))
		}
	})
}

func TestUnknownUnlock(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		a.d.Inject(memory.Fault{Verb: memory.Leave, Lose: true})
		w.unlock(lease) // the second try finds nothing, as it should

		lease = w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		a.d.Inject(memory.Fault{Verb: memory.Leave, Times: -1, Drop: true})
		start := time.Now()
		err := lease.Unlock()
		var unknown *stile.UnknownError
		if !errors.As(err, &unknown) || !errors.Is(err, stile.ErrUnknown) {
			w.Fatalf("got %v; want ErrUnknown", err)
		}
		if took := time.Since(start); took < 4*time.Second || took > 7*time.Second {
			w.Errorf("it tried for %v; want about 5s", took)
		}
		if left := time.Until(unknown.Until); left < ttl-time.Second || left > ttl+time.Second {
			w.Errorf("the ghost ends in %v; want the ttl", left)
		}
		if lease.State() != stile.StateReleased {
			w.Errorf("state %v; want released", lease.State())
		}
		a.d.Heal()
		pass(time.Until(unknown.Until))
		if n := w.queued("x"); n != 0 {
			w.Error("the ghost outlived what was said")
		}
	})
}

func TestUnknownLock(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, Lose: true})
		w.unlock(w.lock(a.Mutex("x"))) // the second try finds the claim in the store

		a.d.Inject(memory.Fault{Verb: memory.Enter, Times: -1, Lose: true})
		_, err := a.Mutex("x").Lock(w.Context())
		if !errors.Is(err, stile.ErrUnknown) || errors.Is(err, stile.ErrHeld) {
			w.Errorf("got %v; want ErrUnknown", err)
		}
		pass(time.Second)
		if n := w.queued("x"); n != 0 {
			w.Errorf("the clean-up left %d claims", n)
		}
		_, err = a.Mutex("x").TryLock(w.Context())
		if !errors.Is(err, stile.ErrUnknown) || errors.Is(err, stile.ErrHeld) {
			w.Errorf("a try got %v; want ErrUnknown, and never that it is held", err)
		}
		a.d.Heal()
	})
}

func TestUnreachableStore(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(&stile.Options{Patience: 3 * time.Second})
		a.d.SetLink(memory.Refused)
		start := time.Now()
		_, err := a.Mutex("x").Lock(w.Context())
		if !errors.Is(err, stile.ErrUnreachable) {
			w.Errorf("got %v; want ErrUnreachable", err)
		}
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			w.Errorf("it tried for %v; want about 3s", took)
		}
		start = time.Now()
		lock := w.inLine(w.Context(), a.Mutex("x"))
		pass(time.Second)
		a.d.SetLink(memory.Up)
		r := <-lock
		if r.err != nil || time.Since(start) > 2*time.Second {
			w.Fatalf("a store that comes back in time: %v after %v", r.err, time.Since(start))
		}
		w.unlock(r.Lease)
	})
}

func TestGrantThatComesTooLateIsNotTrusted(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, After: 2 * time.Second})
		start := time.Now()
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: time.Second}))
		if took := time.Since(start); took < 2*time.Second || a.d.Calls(memory.Enter) < 2 {
			w.Errorf("held after %v and %d calls, on an answer older than the lease", took, a.d.Calls(memory.Enter))
		}
		w.unlock(lease)
	})
}

func TestTrustCountsFromBeforeTheRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(&stile.Options{Margin: 1, Drift: 0.1})
		a.d.Inject(memory.Fault{Verb: memory.Enter, After: 2 * time.Second})
		sent := time.Now()
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		// A tenth for each of two clocks.
		if got, want := lease.Deadline().Sub(sent), ttl*8/10; got > want || got < want-time.Millisecond {
			w.Errorf("trusted for %v from before the request; want %v", got, want)
		}
		a.d.Inject(memory.Fault{Verb: memory.Renew, After: time.Second})
		for a.d.Calls(memory.Renew) == 0 {
			pass(time.Millisecond)
		}
		sent = time.Now()
		pass(1100 * time.Millisecond)
		if got, want := lease.Deadline().Sub(sent), ttl*8/10; got > want || got < want-2*time.Millisecond {
			w.Errorf("after a renewal, trusted for %v from before it; want %v", got, want)
		}
		w.unlock(lease)
	})
}

func TestNoTurnBeginsInJeopardy(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(&stile.Options{Turn: time.Hour})
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Times: -1, Drop: true})
		for lease.State() != stile.StateJeopardy {
			pass(time.Millisecond)
		}
		next := w.inLine(w.Context(), a.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		w.unlock(lease)
		second := w.got(next)
		if second.Token()/engine.Turns == lease.Token()/engine.Turns {
			w.Error("a turn began on a claim that could not be renewed")
		}
		a.d.Heal()
		w.unlock(second)
	})
}

func TestEnteringThatArrivesAfterTheRelease(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, Before: 8 * time.Second, Late: true})
		patient := w.inLine(w.Context(), a.Mutex("x")) // whose patience ends after 5 s
		pass(3 * time.Second)
		later := w.inLine(w.Context(), a.Mutex("x")) // for whom it is sent again then
		if r := <-patient; !errors.Is(r.err, stile.ErrUnknown) || !errors.Is(r.err, stile.ErrUnreachable) {
			w.Errorf("got %v; want ErrUnknown, and that the store cannot be reached", r.err)
		}
		pass(100 * time.Millisecond)
		w.unlock(w.got(later))
		pass(10 * time.Second)
		if n := w.queued("x"); n != 0 {
			w.Errorf("the late request left %d claims", n)
		}
	})
}

func TestHandedOverLeaseIsRenewedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(b.Mutex("x"))
		waiting := w.inLine(w.Context(), a.Mutex("x").With(stile.LockOptions{TTL: time.Minute}))
		w.unlock(held)
		lease := w.got(waiting)
		if left := time.Until(lease.Deadline()); left > 6*time.Second || left < 2*time.Second {
			w.Errorf("on being handed over it is trusted for %v; want what is left of a waiter's short lease", left)
		}
		pass(50 * time.Millisecond)
		if left := time.Until(lease.Deadline()); left < 50*time.Second {
			w.Errorf("soon after it is trusted for %v; want the whole ttl", left)
		}
		w.unlock(lease)
	})
}

// The lease after a handover is short, but outlasts a lost renewal.
func TestHandedOverLeaseOutlivesALostRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		for after := range 12 { // the shorter the later
			held := w.lock(b.Mutex("x"))
			waiting := w.inLine(w.Context(), a.Mutex("x").With(stile.LockOptions{TTL: time.Minute}))
			pass(time.Duration(after) * 333 * time.Millisecond)
			w.unlock(held)
			lease := w.got(waiting)
			a.d.Inject(memory.Fault{Verb: memory.Renew, Drop: true})
			pass(time.Minute)
			if err := lease.Check(); err != nil {
				w.Fatalf("handed over after %v of waiting, and its first renewal was lost: %v", time.Duration(after)*333*time.Millisecond, err)
			}
			w.unlock(lease)
		}
	})
}

// An alarm is a driver that can report a claim in danger on demand.
type alarm struct {
	driver.Driver
	endangered func(ids ...string)
	id         string
}

func (a *alarm) Alert(f func(ids ...string)) { a.endangered = f }

func (a *alarm) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	a.id = c.ID
	return a.Driver.Enter(ctx, c)
}

func TestEndangeredClaimIsRenewedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		d := w.join(nil).d
		a := &alarm{Driver: d}
		c, err := stile.New(a, nil)
		if err != nil {
			w.Fatal(err)
		}
		defer c.Close()
		lease := w.lock(c.Mutex("x").With(stile.LockOptions{TTL: ttl}))
		if _, err := d.Steal("x", time.Minute); err != nil {
			w.Fatal(err)
		}
		start := time.Now()
		a.endangered("another")
		a.endangered("another", a.id)
		<-lease.Context().Done()
		if took := time.Since(start); took > time.Millisecond {
			w.Errorf("it took %v to be told; want it at once", took)
		}
		w.unlockLost(lease)
	})
}
