package sim_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/store/memory"
)

// A waiter does not keep its lock in memory: a program that makes a lock for each call has many waiters.
func TestAWaiterDoesNotKeepItsLock(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.join(nil)
		lease := w.lock(c.Mutex("a"))
		made, ended := make(chan weak.Pointer[stile.Lock], 1), make(chan error, 1)
		go func() {
			l := c.Mutex("a")
			made <- weak.Make(l)
			mine, err := l.Lock(w.Context())
			if err == nil {
				err = mine.Unlock()
			}
			ended <- err
		}()
		l := <-made
		synctest.Wait()
		runtime.GC()
		if l.Value() != nil {
			w.Error("the lock is kept while somebody waits for it")
		}
		w.unlock(lease)
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}

func TestMutexIsHeldInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		var (
			peers   []*peer
			waiting []<-chan result
		)
		first := w.lock(w.join(nil).Mutex("a"))
		last := first.Token()
		for range 5 {
			p := w.join(nil)
			peers = append(peers, p)
			waiting = append(waiting, w.inLine(w.Context(), p.Mutex("a")))
		}
		lease := first
		for i, ch := range waiting {
			w.waits(ch)
			w.unlock(lease)
			lease = w.got(ch)
			if lease.Token() <= last {
				w.Errorf("waiter %d has token %d, after %d", i, lease.Token(), last)
			}
			last = lease.Token()
		}
		w.unlock(lease)
		if n := w.queued("a"); n != 0 {
			w.Errorf("%d claims are left", n)
		}
		for _, p := range peers {
			if names(p) != 0 {
				w.Error("a client remembers a name that it does not use")
			}
		}
	})
}

func TestReadersShareAndAWriterStopsThem(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.join(nil), w.join(nil), w.join(nil)
		r1, r2 := w.lock(a.Reader("x")), w.lock(b.Reader("x"))
		writer := w.inLine(w.Context(), c.Writer("x"))
		pass(10 * time.Millisecond) // beyond the turn in which readers of one process may still share
		r3 := w.inLine(w.Context(), a.Reader("x"))
		w.waits(r3)
		w.unlock(r1)
		w.waits(writer)
		w.unlock(r2)
		lw := w.got(writer)
		w.waits(r3)
		if lw.Token() <= r2.Token() {
			w.Errorf("the writer's token %d is not above the reader's, %d", lw.Token(), r2.Token())
		}
		w.unlock(lw)
		w.unlock(w.got(r3))
	})
}

func TestReadersOfOneProcessShareOneClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		r1, r2 := w.lock(a.Reader("x")), w.lock(a.Reader("x"))
		if n := w.queued("x"); n != 1 {
			w.Errorf("%d claims for two readers of one process; want 1", n)
		}
		if r1.Token() == r2.Token() {
			w.Error("two grants have one token")
		}
		w.unlock(r1)
		if err := r2.Check(); err != nil {
			w.Errorf("the other reader's unlock ended the lease: %v", err)
		}
		w.unlock(r2)
	})
}

func TestPermitsAreAllOrNone(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		two := w.lock(a.Permit("p", 2, 3))
		both := w.inLine(w.Context(), b.Permit("p", 2, 3))
		w.waits(both)
		if _, err := a.Permit("p", 1, 3).TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("overtaking a waiter: %v; want ErrHeld", err)
		}
		w.unlock(two)
		w.unlock(w.got(both))
		one, another := w.lock(a.Permit("p", 1, 3)), w.lock(a.Permit("p", 1, 3))
		w.unlock(one)
		w.unlock(another)
	})
}

func TestTryLock(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("x").With(stile.LockOptions{Owner: "till-7", Reason: "counting"}))
		for _, p := range []*peer{a, b} {
			_, err := p.Mutex("x").TryLock(w.Context())
			if !errors.Is(err, stile.ErrHeld) {
				w.Errorf("a try on a held lock: %v; want ErrHeld", err)
			}
		}
		_, err := b.Mutex("x").TryLock(w.Context())
		var e *stile.HeldError
		if !errors.As(err, &e) || e.By.Owner != "till-7" || e.By.Reason != "counting" || e.Remaining <= 0 {
			w.Errorf("it says %v; want the holder, the reason and what is left", err)
		}
		if n := w.queued("x"); n != 1 {
			w.Errorf("failed tries left something: %d claims; want 1", n)
		}
		w.unlock(held)
		lease, err := b.Mutex("x").TryLock(w.Context())
		if err != nil {
			w.Fatalf("a try on a free lock: %v", err)
		}
		w.unlock(lease)
	})
}

func TestHeldErrorSaysNoMoreThanTheStoreDoes(t *testing.T) {
	for remaining, want := range map[time.Duration]string{
		1234567 * time.Microsecond: "held by till-7, for 1.235s more unless renewed",
		time.Microsecond:           "held by till-7, for 1ms more unless renewed",
		0:                          "held by till-7",
		-time.Second:               "held by till-7 until its lease ran out, and kept from others by its lock-delay",
	} {
		if got := (&stile.HeldError{By: stile.Holder{Owner: "till-7"}, Remaining: remaining}).Error(); got != want {
			t.Errorf("%v left: %q; want %q", remaining, got, want)
		}
	}
}

func TestLockWithin(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("x").With(stile.LockOptions{Owner: "till-7"}))
		start := time.Now()
		_, err := b.Mutex("x").LockWithin(w.Context(), 3*time.Second)
		if !errors.Is(err, stile.ErrHeld) || !strings.Contains(err.Error(), "till-7") || !strings.Contains(err.Error(), "3s") {
			w.Errorf("got %v; want ErrHeld, the holder and how long it waited", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			w.Errorf("it waited %v; want 3s", got)
		}
		pass(time.Second)
		if n := w.queued("x"); n != 1 {
			w.Errorf("%d claims; want the holder's alone", n)
		}
		_, err = stile.Join(b.Mutex("a"), b.Mutex("x")).LockWithin(w.Context(), time.Second)
		var e *stile.HeldError
		if !errors.As(err, &e) || e.By.Owner != "till-7" || !strings.Contains(err.Error(), `"x"`) {
			w.Errorf("a joined lock: %v; want the part that is held, and by whom", err)
		}
		w.unlock(held)
	})
}

func TestDo(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		failed := errors.New("no paper")
		err := a.Mutex("x").Do(w.Context(), func(ctx context.Context) error {
			if stile.Token(ctx) < engine.Turns || stile.FromContext(ctx).Check() != nil {
				w.Errorf("token %d", stile.Token(ctx))
			}
			return failed
		})
		if !errors.Is(err, failed) || err.Error() != failed.Error() {
			w.Errorf("Do returned %v; want what its function did", err)
		}
		func() {
			defer func() {
				if got := recover(); got != "out" {
					w.Errorf("recovered %v; want the function's panic", got)
				}
			}()
			err := a.Mutex("x").Do(w.Context(), func(context.Context) error { panic("out") })
			w.Errorf("Do returned %v in place of the panic", err)
		}()
		if n := w.queued("x"); n != 0 {
			w.Errorf("a panic left %d claims", n)
		}
		err = a.Mutex("x").Do(w.Context(), func(ctx context.Context) error {
			if _, err := a.d.Steal("x", time.Second); err != nil {
				w.Error(err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), stile.ErrLost) {
				w.Errorf("the context's cause is %v; want ErrLost", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, stile.ErrLost) {
			w.Errorf("Do returned %v though the lease was lost; want ErrLost", err)
		}
	})
}

func TestReentrance(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		outer := w.lock(a.Writer("x"))
		ctx := outer.Context()
		for _, l := range []*stile.Lock{a.Mutex("x"), a.Reader("x")} {
			if _, err := l.Lock(ctx); !errors.Is(err, stile.ErrReentrant) {
				w.Errorf("got %v; want ErrReentrant at once", err)
			}
		}
		again := stile.LockOptions{Reentrant: true}
		inner := lockIn(w, ctx, a.Mutex("x").With(again))
		deepest := lockIn(w, inner.Context(), a.Reader("x").With(again))
		if inner.Token() != outer.Token() || deepest.Token() != outer.Token() {
			w.Error("a lease that is shared has another token")
		}
		w.unlock(outer)
		w.unlock(deepest)
		if err := inner.Check(); err != nil || w.queued("x") != 1 {
			w.Errorf("the lock was freed while a lease of it was out: %v", err)
		}
		if err := outer.Unlock(); !errors.Is(err, stile.ErrReleased) {
			w.Errorf("unlocking twice: %v; want ErrReleased", err)
		}
		w.unlock(inner)
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left", n)
		}

		reader := w.lock(a.Reader("x"))
		if _, err := a.Writer("x").With(again).Lock(reader.Context()); !errors.Is(err, stile.ErrReentrant) {
			w.Errorf("an upgrade: %v; want ErrReentrant at once", err)
		}
		w.unlock(reader)
		permit := w.lock(a.Permit("p", 1, 2))
		if _, err := a.Permit("p", 1, 2).With(again).Lock(permit.Context()); !errors.Is(err, stile.ErrReentrant) {
			w.Errorf("more permits: %v; want ErrReentrant at once", err)
		}
		w.unlock(permit)
		// A context whose lease is over carries nothing.
		w.unlock(lockIn(w, context.WithoutCancel(ctx), a.Mutex("x")))
	})
}

func lockIn(w *world, ctx context.Context, l *stile.Lock) *stile.Lease {
	w.Helper()
	lease, err := l.Lock(ctx)
	if err != nil {
		w.Fatal(err)
	}
	return lease
}

func TestReclaim(t *testing.T) {
	inWorld(t, func(w *world) {
		job := stile.LockOptions{Owner: "nightly", Reclaim: true}
		dead := w.lock(w.join(nil).Mutex("x").With(job))
		again := w.lock(w.join(nil).Mutex("x").With(job))
		if again.Token() <= dead.Token() {
			w.Errorf("token %d after %d", again.Token(), dead.Token())
		}
		pass(time.Minute)
		if err := dead.Check(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("the earlier run: %v; want ErrLost", err)
		}
		w.unlock(again)
		w.unlockLost(dead)
	})
}

func TestBadInput(t *testing.T) {
	c, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, tt := range []struct {
		name string
		lock *stile.Lock
		want string
	}{
		{"empty name", c.Mutex(""), `the name is empty`},
		{"long name", c.Mutex(strings.Repeat("n", 256)), `the name is 256 bytes long; the limit is 255`},
		{"not UTF-8", c.Mutex("a\xff"), `not valid UTF-8 (byte 0xff at position 1)`},
		{"control character", c.Mutex("a\nb"), `control character U+000A at position 1`},
		{"short ttl", c.Mutex("a").With(stile.LockOptions{TTL: time.Microsecond}), `invalid ttl 1µs: the shortest that memory keeps is 1ms`},
		{"negative ttl", c.Mutex("a").With(stile.LockOptions{TTL: -time.Second}), `invalid ttl -1s`},
		{"long ttl", c.Mutex("a").With(stile.LockOptions{TTL: 25 * time.Hour}), `invalid ttl 25h0m0s: the longest is 24h0m0s`},
		{"negative hold", c.Mutex("a").With(stile.LockOptions{MaxHold: -1}), `must not be negative`},
		{"long delay", c.Mutex("a").With(stile.LockOptions{LockDelay: 1000 * time.Hour}), `invalid lock-delay 1000h0m0s`},
		{"long linger", c.Mutex("a").With(stile.LockOptions{Linger: time.Hour}), `invalid linger 1h0m0s: it must not be longer than the ttl, 15s`},
		{"nobody's reclaim", c.Mutex("a").With(stile.LockOptions{Reclaim: true}), `reclaim needs an owner`},
		{"long owner", c.Mutex("a").With(stile.LockOptions{Owner: strings.Repeat("o", 5000)}), `the limit is 4000`},
		{"no permits", c.Permit("a", 0, 5), `invalid permits 0: it must be from 1 to 5`},
		{"negative permits", c.Permit("a", -1, 5), `invalid permits -1: it must be from 1 to 5`},
		{"too many permits", c.Permit("a", 6, 5), `invalid permits 6: it must be from 1 to 5`},
		{"fewer than none", c.Permit("a", 1, -1), `invalid number of permits -1: it must be from 1 to 2147483646`},
		{"of none", c.Permit("a", 1, 0), `invalid number of permits 0: it must be from 1 to 2147483646`},
		{"joined with itself", stile.Join(c.Mutex("b"), c.Reader("a"), c.Mutex("b")), `"b" is in it twice`},
		{"joined of nothing", stile.Join(), `needs at least one lock`},
		{"joined with a bad one", stile.Join(c.Mutex("a"), c.Mutex("")), `the name is empty`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for op, take := range map[string]func(context.Context) (*stile.Lease, error){"lock": tt.lock.Lock, "try": tt.lock.TryLock} {
				_, err := take(t.Context())
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: got %v; want one line with %q", op, err, tt.want)
				}
				if !errors.Is(err, stile.ErrInvalid) {
					t.Errorf("%s: %v is not ErrInvalid", op, err)
				}
			}
		})
	}
}

func TestCapacityConflict(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		five := w.lock(a.Permit("p", 1, 5))
		_, err := b.Permit("p", 1, 3).Lock(w.Context())
		if !errors.Is(err, stile.ErrCapacity) || !strings.Contains(err.Error(), "exists with 5, asked for 3") {
			w.Errorf("got %v; want ErrCapacity with both numbers", err)
		}
		if _, err := b.Mutex("p").Lock(w.Context()); !errors.Is(err, stile.ErrCapacity) {
			w.Errorf("a mutex on permits: %v; want ErrCapacity", err)
		}
		w.unlock(five)
		w.unlock(w.lock(b.Permit("p", 1, 3)))
	})
}

func TestBadOptions(t *testing.T) {
	for _, o := range []stile.Options{{Drift: -1}, {Drift: 0.2}, {Turn: -1}, {Margin: -1}, {Patience: -1}} {
		if _, err := stile.New(memory.New(), &o); !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("%+v: %v; want ErrInvalid", o, err)
		}
	}
}

func TestUnsupportedPowers(t *testing.T) {
	c, err := stile.New(poor{memory.New()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, l := range []*stile.Lock{c.Reader("a"), c.Permit("a", 1, 2)} {
		if _, err := l.Lock(t.Context()); !errors.Is(err, stile.ErrUnsupported) {
			t.Errorf("got %v; want ErrUnsupported", err)
		}
	}
	if _, err := c.List(t.Context(), ""); !errors.Is(err, stile.ErrUnsupported) {
		t.Errorf("listing: %v; want ErrUnsupported", err)
	}
	if _, err := c.Break(t.Context(), "a", stile.BreakOptions{Head: true}); !errors.Is(err, stile.ErrUnsupported) {
		t.Errorf("breaking: %v; want ErrUnsupported", err)
	}
}

// poor is a driver without the optional methods.
type poor struct{ driver.Driver }

func (poor) Traits() driver.Traits { return driver.Traits{Store: "poor", MinTTL: time.Millisecond} }

func TestOpen(t *testing.T) {
	const secret = "hunter2-canary"
	for _, tt := range []struct{ url, want string }{
		{"", "must begin with a scheme"},
		{"nothing", "must begin with a scheme"},
		{"redsi://u:" + secret + "@h", `unknown store "redsi"; did you mean redis?; known: memory`},
		{"memory://?tll=" + secret, `unknown parameter "tll" for memory://`},
		{"memory://u:" + secret + "@h:x", "not of the form host or host:port"},
	} {
		_, err := stile.Open(t.Context(), tt.url, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v; want %q", tt.url, err, tt.want)
		}
	}
	c, err := stile.Open(t.Context(), "memory://", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Mutex("a").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if _, err := c.Mutex("a").Lock(t.Context()); !errors.Is(err, stile.ErrClosed) {
		t.Errorf("after closing: %v; want ErrClosed", err)
	}
}
