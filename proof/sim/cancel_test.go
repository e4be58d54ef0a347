package sim_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// errEnough is the cause with which the tests cancel.
var errEnough = errors.New("enough")

// TestCancelAtEveryAwaitPoint ends the caller's context at each point where an acquisition can stand still, and checks
// that the caller gets its context's cause at once, and that nothing is left behind.
func TestCancelAtEveryAwaitPoint(t *testing.T) {
	type point struct {
		name  string
		fault memory.Fault
		held  bool // by another process
		local bool // by this process
	}
	points := []point{
		{name: "before entering", fault: memory.Fault{Verb: memory.Enter, Before: 5 * time.Second}},
		{name: "entering, the request arrives all the same", fault: memory.Fault{Verb: memory.Enter, Before: 5 * time.Second, Late: true}},
		{name: "entering, applied, before the reply", fault: memory.Fault{Verb: memory.Enter, After: 5 * time.Second}},
		{name: "entering, no answer", fault: memory.Fault{Verb: memory.Enter, Times: -1, Hang: true}},
		{name: "entering, applied, no answer", fault: memory.Fault{Verb: memory.Enter, Hang: true, Lose: true}},
		{name: "between tries", fault: memory.Fault{Verb: memory.Enter, Times: -1, Drop: true}},
		{name: "waiting in the store", held: true},
		{name: "waiting in the store, deaf", held: true, fault: memory.Fault{Verb: memory.Await, Times: -1, Hang: true}},
		{name: "waiting for its turn", local: true},
		{name: "entering again while waiting", held: true, fault: memory.Fault{Verb: memory.Enter, Times: -1, After: 2 * time.Second}},
	}
	for _, p := range points {
		for _, op := range []string{"lock", "do", "join"} {
			t.Run(p.name+"/"+op, func(t *testing.T) {
				inWorld(t, func(w *world) {
					a, b := w.join(nil), w.join(nil)
					var held *stile.Lease
					switch {
					case p.held:
						held = w.lock(b.Mutex("x"))
					case p.local:
						held = w.lock(a.Mutex("x"))
					}
					if p.fault != (memory.Fault{}) {
						a.d.Inject(p.fault)
					}
					ctx, cancel := context.WithCancelCause(w.Context())
					done := make(chan error, 1)
					go func() { done <- take(ctx, a.Client, op) }()
					pass(3500 * time.Millisecond)
					cancel(errEnough)
					synctest.Wait()
					select {
					case err := <-done:
						if !errors.Is(err, errEnough) {
							w.Errorf("got %v; want the context's cause", err)
						}
					default:
						w.Fatal("it did not end with its context")
					}
					a.d.Heal()
					want := 0
					if held != nil {
						want = 1
					}
					pass(6 * time.Second) // a late request arrives, the clean-up ends
					if n := w.queued("x"); n != want {
						w.Errorf("%d claims; want %d", n, want)
					}
					if held != nil {
						w.unlock(held)
					}
					w.unlock(w.lock(a.Mutex("x")))
					if names(a) != 0 {
						w.Error("the client remembers the name")
					}
				})
			})
		}
	}
}

func take(ctx context.Context, c *stile.Client, op string) error {
	switch op {
	case "do":
		return c.Mutex("x").Do(ctx, func(context.Context) error { return nil })
	case "join":
		_, err := stile.Join(c.Mutex("x"), c.Mutex("y")).Lock(ctx)
		return err
	}
	_, err := c.Mutex("x").Lock(ctx)
	return err
}

// TestCancelRacesGrant cancels at about the moment of the grant: whichever comes first, the lock must be free afterwards.
func TestCancelRacesGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, Times: -1, After: time.Millisecond})
		for i := range 200 {
			held := w.lock(b.Mutex("x"))
			ctx, cancel := context.WithCancelCause(w.Context())
			done := make(chan result, 1)
			go func() {
				lease, err := a.Mutex("x").Lock(ctx)
				done <- result{lease, err}
			}()
			<-time.After(2 * time.Millisecond)
			go cancel(errEnough)
			go func() { w.unlock(held) }()
			if i%2 == 0 {
				synctest.Wait()
			}
			if r := <-done; r.err == nil {
				w.unlock(r.Lease)
			} else if !errors.Is(r.err, errEnough) {
				w.Fatalf("got %v", r.err)
			}
			pass(10 * time.Millisecond)
			if n := w.queued("x"); n != 0 {
				w.Fatalf("round %d: %d claims are left", i, n)
			}
		}
	})
}

func TestDeadContextDoesNoIO(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		ctx, cancel := context.WithCancelCause(w.Context())
		cancel(errEnough)
		if _, err := a.Mutex("x").Lock(ctx); !errors.Is(err, errEnough) {
			w.Errorf("got %v; want the cause", err)
		}
		if n := a.d.Calls(""); n != 0 {
			w.Errorf("the store was called %d times", n)
		}
	})
}

// In TestWaitersSurvive a waiter meets each fault, and still gets its lock.
func TestWaitersSurvive(t *testing.T) {
	for name, f := range map[string]memory.Fault{
		"a lost reply while entering":   {Verb: memory.Enter, Times: 3, Lose: true},
		"lost requests":                 {Verb: memory.Enter, Times: 3, Drop: true},
		"a slow store":                  {Verb: memory.Enter, Times: 5, Before: 500 * time.Millisecond, After: 500 * time.Millisecond},
		"awaits that fail":              {Verb: memory.Await, Times: 20, Drop: true},
		"awaits that fail for good":     {Verb: memory.Await, Times: -1, Drop: true},
		"notifications that never come": {Verb: memory.Await, Times: -1, Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.join(nil), w.join(nil)
				held := w.lock(b.Mutex("x"))
				a.d.Inject(f)
				waiting := w.inLine(w.Context(), a.Mutex("x"))
				pass(20 * time.Second)
				calls := a.d.Calls("")
				if calls > 150 {
					w.Errorf("%d calls in 20 s; want no storm", calls)
				}
				w.unlock(held)
				start := time.Now()
				r := <-waiting
				if r.err != nil {
					w.Fatal(r.err)
				}
				if took := time.Since(start); took > 5*time.Second {
					w.Errorf("it held %v after the release", took)
				}
				w.unlock(r.Lease)
			})
		})
	}
}

func TestWaiterWhosePlaceWasRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(b.Mutex("x"))
		waiting := w.inLine(w.Context(), a.Mutex("x"))
		q, err := b.Show(w.Context(), "x")
		if err != nil || len(q.Claims) != 2 {
			w.Fatalf("%v, %v", q, err)
		}
		if _, err := b.Break(w.Context(), "x", stile.BreakOptions{Ticket: q.Claims[1].Ticket}); err != nil {
			w.Fatal(err)
		}
		if r := <-waiting; !errors.Is(r.err, stile.ErrLost) {
			w.Errorf("got %v; want ErrLost, and never the lock", r.err)
		}
		w.unlock(held)
	})
}

func TestWaiterWhosePlaceRanOutStartsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.join(nil), w.join(nil), w.join(nil)
		held := w.lock(b.Mutex("x"))
		ids := &idRecorder{Driver: a.d}
		client, err := stile.New(ids, nil)
		if err != nil {
			w.Fatal(err)
		}
		defer client.Close()
		defer ids.check(w)
		waiting := w.inLine(w.Context(), client.Mutex("x"))
		a.d.SetLink(memory.Silent)
		pass(time.Second)
		behind := w.inLine(w.Context(), c.Mutex("x"))
		pass(9 * time.Second)
		if n := w.queued("x"); n != 2 {
			w.Fatalf("%d claims; want the silent one's to have run out", n)
		}
		a.d.Heal()
		pass(4 * time.Second)
		w.unlock(held)
		second := w.got(behind)
		w.waits(waiting) // it lost its place, not its patience
		w.unlock(second)
		w.unlock((<-waiting).Lease)
	})
}

// idRecorder is a driver that remembers the ids that entered.
type idRecorder struct {
	*memory.Driver
	entered []string
}

func (d *idRecorder) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := d.Driver.Enter(ctx, c)
	if c.Ticket == 0 && err == nil {
		d.entered = append(d.entered, c.ID)
	}
	return p, err
}

func (d *idRecorder) check(w *world) {
	w.Helper()
	if len(d.entered) != 2 || d.entered[0] == d.entered[1] {
		w.Errorf("ids that entered: %v; want a new one for a second place", d.entered)
	}
}

func TestClosingDriverEndsWaiters(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(b.Mutex("x"))
		waiting := w.inLine(w.Context(), a.Mutex("x"))
		if err := a.d.Close(); err != nil {
			w.Fatal(err)
		}
		if r := <-waiting; !errors.Is(r.err, driver.ErrClosed) {
			w.Errorf("got %v; want ErrClosed", r.err)
		}
		w.unlock(held)
	})
}
