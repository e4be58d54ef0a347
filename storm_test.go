package stile_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/memory"
)

// Whatever befalls the store, no call lasts longer than docs/reference/bounds.md says, none fails with what is another's, and
// nothing is left when it is over.
func TestStorm(t *testing.T) {
	for seed := range uint64(100) {
		inWorld(t, func(w *world) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test repeats itself
			a := w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Minute}})
			b := w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Minute}})
			var all sync.WaitGroup
			for range 12 {
				p, own := a, random.Uint64()
				if own%3 == 0 {
					p = b
				}
				all.Go(func() { sailor(w, p, rand.New(rand.NewPCG(seed, own))) }) //nolint:gosec // the same
			}
			for range 30 {
				p := []*peer{a, b}[random.IntN(2)]
				verb := []memory.Verb{"", memory.Enter, memory.Await, memory.Renew, memory.Leave}[random.IntN(5)]
				wait := time.Duration(random.IntN(7000)) * time.Millisecond
				switch random.IntN(8) {
				case 0:
					p.d.SetLink([]memory.Link{memory.Deaf, memory.Refused, memory.Silent}[random.IntN(3)])
				case 1:
					p.d.Inject(memory.Fault{Verb: verb, Times: random.IntN(5), Lose: true})
				case 2:
					p.d.Inject(memory.Fault{Verb: verb, Times: random.IntN(5), Drop: true})
				case 3:
					p.d.Inject(memory.Fault{Verb: verb, Times: random.IntN(3), Before: wait, Late: random.IntN(2) == 0})
				case 4:
					p.d.Inject(memory.Fault{Verb: verb, Times: random.IntN(3), After: wait})
				case 5:
					p.d.Inject(memory.Fault{Verb: verb, Hang: true, Lose: random.IntN(2) == 0})
				default:
					p.d.Heal()
				}
				pass(time.Duration(random.IntN(4000)) * time.Millisecond)
			}
			a.d.Heal()
			b.d.Heal()
			all.Wait()
			pass(3 * time.Minute) // what was left of unknown outcome has run out
			if n := w.queued("x"); n != 0 || a.Gates() != 0 || b.Gates() != 0 {
				w.Errorf("seed %d: %d claims are left, and the clients mind %d and %d names", seed, n, a.Gates(), b.Gates())
			}
		})
		if t.Failed() {
			return
		}
	}
}

// sailor takes the lock in one way or another, again and again.
func sailor(w *world, p *peer, random *rand.Rand) {
	const slack = time.Millisecond
	for range 12 {
		lock := []*stile.Lock{p.Writer("x"), p.Reader("x"), p.Reader("x")}[random.IntN(3)]
		if random.IntN(3) == 0 {
			lock = lock.With(stile.LockOptions{Linger: time.Second})
		}
		if random.IntN(4) == 0 {
			lock = lock.With(stile.LockOptions{MaxHold: time.Second})
		}
		limit := time.Duration(random.IntN(8000)) * time.Millisecond
		var (
			lease *stile.Lease
			err   error
		)
		switch random.IntN(3) {
		case 0:
			if d := took(func() { lease, err = lock.TryLock(w.Context()) }); d > 5*time.Second+slack {
				w.Errorf("TryLock lasted %v", d)
			}
		case 1:
			if d := took(func() { lease, err = lock.LockWithin(w.Context(), limit) }); d > max(limit, 5*time.Second)+slack {
				w.Errorf("LockWithin %v lasted %v", limit, d)
			}
		default:
			ctx, cancel := context.WithTimeoutCause(w.Context(), limit, errEnough)
			if d := took(func() { lease, err = lock.Lock(ctx) }); d > limit+slack {
				w.Errorf("Lock with %v lasted %v", limit, d)
			}
			cancel()
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, stile.ErrHeld) {
				w.Errorf("Lock: %v", err)
			}
		}
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				w.Errorf("got another's end: %v", err)
			}
			continue
		}
		<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		if random.IntN(4) == 0 {
			h, err := lease.Detach(w.Context())
			if err == nil {
				if lease, err = p.Attach(w.Context(), h); err != nil {
					continue // it runs out
				}
			}
		}
		if d := took(func() { err = lease.Unlock() }); d > 5*time.Second+slack {
			w.Errorf("Unlock lasted %v: %v", d, err)
		}
	}
}

// The claim of a waiter who gave up is not had by nobody, if its turn comes just after the try that shared it was refused.
func TestRefusedTryLeavesNoGhostAtTheHead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(b.Writer("x"))
		a.d.Inject(memory.Fault{Verb: memory.Enter, Times: 2, Before: time.Second})
		ctx, cancel := context.WithCancelCause(w.Context())
		gone := w.inLine(ctx, a.Reader("x"))
		try := make(chan error, 1)
		go func() {
			_, err := a.Reader("x").TryLock(w.Context())
			try <- err
		}()
		pass(500 * time.Millisecond)
		cancel(errEnough)
		<-gone
		if err := <-try; !errors.Is(err, stile.ErrHeld) {
			w.Errorf("got %v; want ErrHeld", err)
		}
		w.unlock(held)
		pass(10 * time.Second)
		if n := w.queued("x"); n != 0 || a.Gates() != 0 {
			w.Errorf("%d claims stand in the store, and the client minds %d names; want none", n, a.Gates())
		}
	})
}
