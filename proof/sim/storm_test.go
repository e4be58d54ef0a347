package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// Under any fault of the store no call lasts longer than docs/reference/bounds.md says, no call returns the error of
// another, and nothing stays in the store at the end.
func TestStorm(t *testing.T) {
	bySeed(t, 100, func(w *world, seed int64) { storm(w, uint64(seed)) })
}

// bySeed runs a simulation in worlds drawn from seeds, until three have failed.
func bySeed(t *testing.T, seeds int64, run func(w *world, seed int64)) {
	t.Helper()
	failed := 0
	for seed := range seeds {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { inWorld(t, func(w *world) { run(w, seed) }) }) {
			failed++
		}
		if failed == 3 {
			return
		}
	}
}

func storm(w *world, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test repeats itself
	a := w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Minute}})
	b := w.join(&stile.Options{LockOptions: stile.LockOptions{TTL: time.Minute}})
	var all sync.WaitGroup
	for range 12 {
		p, own := a, random.Uint64()
		if own%3 == 0 {
			p = b
		}
		s := &stormWorker{world: w, peer: p, random: rand.New(rand.NewPCG(seed, own))} //nolint:gosec // the same
		all.Go(s.lockAgain)
	}
	for range 30 {
		p := []*peer{a, b}[random.IntN(2)]
		verb := []memory.Verb{"", memory.Enter, memory.Await, memory.Renew, memory.Leave}[random.IntN(5)]
		wait := time.Duration(random.IntN(7000)) * time.Millisecond
		switch random.IntN(8) {
		case 0:
			p.d.SetLink([]memory.Link{memory.Unnotified, memory.Refused, memory.Silent}[random.IntN(3)])
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
	if seed%4 == 0 {
		if d := lasts(a.shut); d > 5*time.Second+slack {
			w.Errorf("Close lasted %v", d)
		}
	}
	a.d.Heal()
	b.d.Heal()
	all.Wait()
	leaves := a.d.Calls(memory.Leave) + b.d.Calls(memory.Leave)
	pass(3 * time.Minute) // the claims of unknown outcome have run out
	if n := w.queued("x") + w.queued("y"); n != 0 || names(a) != 0 || names(b) != 0 {
		w.Errorf("%d claims are left, and the clients mind %d and %d names", n, names(a), names(b))
	}
	if n := a.d.Calls(memory.Leave) + b.d.Calls(memory.Leave) - leaves; n > mostLeaves {
		w.Errorf("the store was asked %d times afterwards to remove what nobody has; want %d at most", n, mostLeaves)
	}
}

// slack is how much longer than its bound a call may last in virtual time, in which only timers have a length.
const slack = time.Millisecond

// mostLeaves is the number of Leaves that two clients with twelve callers send at most when all callers have ended.
const mostLeaves = 60

// A stormWorker takes the lock in one way or another, again and again.
type stormWorker struct {
	*world
	*peer
	random *rand.Rand
}

func (s *stormWorker) Errorf(format string, args ...any) { s.world.Errorf(format, args...) }

func (s *stormWorker) lockAgain() {
	for range 12 {
		s.question()
		lock, hold, parts := s.choose()
		lease := s.take(lock, parts)
		if lease == nil {
			continue
		}
		began, ctx := time.Now(), lease.Context()
		<-time.After(time.Duration(s.random.IntN(3000)) * time.Millisecond)
		if s.random.IntN(4) == 0 && len(lease.Parts()) == 1 {
			if lease = s.leave(lease, hold > 0, began.Add(hold)); lease == nil {
				continue // the lease runs out, or is over
			}
			ctx = lease.Context()
		}
		var err error
		if d := took(func() { err = lease.Unlock() }); d > 5*time.Second+slack {
			s.Errorf("Unlock lasted %v: %v", d, err)
		}
		if ctx.Err() == nil {
			s.Errorf("the lease's context goes on after Unlock")
		}
	}
}

// question queries the store.
func (s *stormWorker) question() {
	var err error
	ask := []func(){
		func() {},
		func() { _, err = s.Show(s.world.Context(), "x") },
		func() { _, err = s.List(s.world.Context(), "") },
		func() { _, err = s.Leader(s.world.Context(), "x") },
	}[s.random.IntN(4)]
	if d := took(ask); d > 5*time.Second+slack {
		s.Errorf("a question lasted %v: %v", d, err)
	}
}

// choose returns a lock, its MaxHold, and the number of its parts.
func (s *stormWorker) choose() (lock *stile.Lock, hold time.Duration, parts int) {
	c := s.peer.Client
	lock, parts = c.Reader("x"), 1
	switch s.random.IntN(4) {
	case 0:
		lock = c.Writer("x")
	case 1:
		lock, parts = stile.Join(c.Reader("x"), c.Writer("y")), 2
	}
	if s.random.IntN(3) == 0 {
		lock = lock.With(stile.LockOptions{Linger: time.Second})
	}
	if s.random.IntN(4) == 0 {
		hold = time.Second
		lock = lock.With(stile.LockOptions{MaxHold: hold})
	}
	return lock, hold, parts
}

// take acquires a lock in one of three ways, and returns nil if that fails.
func (s *stormWorker) take(lock *stile.Lock, parts int) (lease *stile.Lease) {
	back := time.Duration(parts-1) * 5 * time.Second // the lock gives back a part that it got
	limit := time.Duration(s.random.IntN(8000)) * time.Millisecond
	enough := errors.New("enough of " + limit.String())
	var err error
	bound, way := limit, s.random.IntN(3)
	began := time.Now()
	switch way {
	case 0:
		bound = time.Duration(parts) * 5 * time.Second
		lease, err = lock.TryLock(s.world.Context())
	case 1:
		bound = max(limit, time.Duration(parts)*5*time.Second)
		lease, err = lock.LockWithin(s.world.Context(), limit)
	default:
		ctx, cancel := context.WithTimeoutCause(s.world.Context(), limit, enough)
		lease, err = lock.Lock(ctx)
		cancel()
	}
	if d := time.Since(began); d > bound+back+slack {
		s.Errorf("%s of %v lasted %v", waysIn[way], limit, d)
	}
	if late := s.since(began); late > back+slack {
		s.Errorf("%s goes on for %v after Close", waysIn[way], late)
	}
	held, ok := errors.AsType[*stile.HeldError](err)
	switch {
	case ok && way == 2:
		s.Errorf("Lock: %v", err)
	case ok && held.By == stile.Holder{}:
		s.Errorf("%s: held by nobody: %v", waysIn[way], err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		err != nil && strings.Contains(err.Error(), "enough") && !errors.Is(err, enough):
		s.Errorf("%s of %v got another's end: %v", waysIn[way], limit, err)
	}
	return lease
}

var waysIn = [...]string{"TryLock", "LockWithin", "Lock"}

// leave detaches a lease and attaches it again, sometimes during an unlock. If the lease is bounded, it may be held until
// over, plus the time between Detach and Attach.
func (s *stormWorker) leave(lease *stile.Lease, bounded bool, over time.Time) *stile.Lease {
	unlocked := make(chan error, 1)
	beside := s.random.IntN(2) == 0
	if beside {
		wait := time.Duration(s.random.IntN(3)) * time.Second
		go func() {
			<-time.After(wait)
			unlocked <- lease.Unlock()
		}()
	}
	h, err := lease.Detach(s.world.Context())
	rest := max(0, time.Until(over))
	if beside {
		switch end := <-unlocked; {
		case err == nil && !errors.Is(end, stile.ErrReleased):
			s.Errorf("Unlock of a lease that was detached: %v", end)
		case err != nil:
			return nil
		}
	}
	if err != nil {
		return lease
	}
	again, err := s.Attach(s.world.Context(), h)
	if err != nil {
		return nil
	}
	if left := time.Until(again.Deadline()); bounded && left > rest {
		s.Errorf("a lease that is attached may be held for %v; %v of MaxHold are left", left, rest)
	}
	return again
}

// The claim of a waiter that gave up does not stay held by nobody if its turn comes just after the refusal of the try that
// shared it.
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
		if n := w.queued("x"); n != 0 || names(a) != 0 {
			w.Errorf("%d claims stand in the store, and the client minds %d names; want none", n, names(a))
		}
	})
}
