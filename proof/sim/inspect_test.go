package sim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

func TestShowAndList(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("b/1").With(stile.LockOptions{Owner: "till-7", Reason: "counting"}))
		ctx, cancel := context.WithCancel(w.Context())
		waiting := w.inLine(ctx, b.Mutex("b/1"))
		permits := w.lock(a.Permit("b/2", 2, 5))
		leader := w.lock(a.Candidate("a", "10.0.0.7:80"))
		pass(3 * time.Second)

		q, err := b.Show(w.Context(), "b/1")
		if err != nil || q.Name != "b/1" || q.Permits != 0 || len(q.Claims) != 2 {
			w.Fatalf("show: %+v, %v", q, err)
		}
		first, second := q.Claims[0], q.Claims[1]
		if !first.Holds || first.Ticket != held.Token() || first.Weight != 0 || first.Since != 3*time.Second ||
			first.Holder.Owner != "till-7" || first.Holder.Reason != "counting" || first.Holder.PID == 0 {
			w.Errorf("the holder: %+v", first)
		}
		if second.Holds || second.Ticket <= first.Ticket || second.Remaining <= 0 || second.Remaining > 6*time.Second {
			w.Errorf("the waiter: %+v; want a short lease", second)
		}

		list, err := b.List(w.Context(), "b/")
		if err != nil || len(list) != 2 || list[0].Name != "b/1" || list[1].Name != "b/2" {
			w.Fatalf("list: %+v, %v", list, err)
		}
		if p := list[1]; p.Permits != 5 || p.Claims[0].Weight != 2 {
			w.Errorf("permits: %+v", p)
		}
		if all, err := b.List(w.Context(), ""); err != nil || len(all) != 3 || all[0].Claims[0].Holder.Value != "10.0.0.7:80" {
			w.Errorf("all: %+v, %v", all, err)
		}
		if q, err := b.Show(w.Context(), "nobody's"); err != nil || q.Name != "nobody's" || len(q.Claims) != 0 {
			w.Errorf("a name that nobody uses: %+v, %v", q, err)
		}
		if _, err := b.Show(w.Context(), ""); !errors.Is(err, stile.ErrInvalid) {
			w.Errorf("no name: %v; want ErrInvalid", err)
		}
		cancel()
		<-waiting
		for _, l := range []*stile.Lease{held, permits, leader} {
			w.unlock(l)
		}
	})
}

func TestWatchYieldsEveryChange(t *testing.T) {
	for name, pushes := range map[string]bool{"pushed": true, "polled": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.join(nil)
				var d driver.Driver = w.store.Driver()
				if !pushes {
					d = noWatcher{d, d.(driver.Lister)}
				}
				c, err := stile.New(d, nil)
				if err != nil {
					w.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithCancel(w.Context())
				seen := make(chan stile.Queue, 100)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for q, err := range c.Watch(ctx, "x") {
						if err != nil {
							w.Error(err)
						}
						seen <- q
					}
				}()
				want := func(claims int) {
					w.Helper()
					pass(time.Second)
					if len(seen) != 1 {
						w.Fatalf("%d changes seen; want one", len(seen))
					}
					if q := <-seen; len(q.Claims) != claims {
						w.Errorf("%d claims; want %d", len(q.Claims), claims)
					}
				}
				want(0)
				lease := w.lock(a.Mutex("x"))
				want(1)
				pass(time.Minute) // renewals are no change
				if len(seen) != 0 {
					w.Errorf("%d changes seen while nothing changed", len(seen))
				}
				w.unlock(lease)
				want(0)
				cancel()
				<-done
			})
		})
	}
}

// noWatcher is a driver that cannot report changes.
type noWatcher struct {
	driver.Driver
	driver.Lister
}

func TestWatchEndsWithAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		n := 0
		for _, err := range a.Watch(w.Context(), "") {
			if n++; !errors.Is(err, stile.ErrInvalid) {
				w.Errorf("got %v; want ErrInvalid", err)
			}
		}
		if n != 1 {
			w.Errorf("it yielded %d times; want once", n)
		}
	})
}

func TestBreak(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("x").With(stile.LockOptions{Owner: "stuck"}))
		waiting := w.inLine(w.Context(), b.Mutex("x"))
		broken, err := b.Break(w.Context(), "x", stile.BreakOptions{Ticket: held.Ticket(), Reason: "it is stuck"})
		if err != nil || broken.Holder.Owner != "stuck" || !broken.Holds {
			w.Fatalf("break: %+v, %v", broken, err)
		}
		next := w.got(waiting)
		synctest.Wait()
		var lost *stile.LostError
		if err := held.Check(); !errors.As(err, &lost) || lost.Reason != stile.ReasonBroken || lost.By.Reason != "it is stuck" || lost.By.PID == 0 {
			w.Errorf("the holder was not told at once who broke its claim, and why: %v", err)
		}
		if _, err := b.Break(w.Context(), "x", stile.BreakOptions{Ticket: held.Ticket()}); !errors.Is(err, stile.ErrGone) {
			w.Errorf("a second time: %v; want ErrGone", err)
		}
		for _, bad := range []stile.BreakOptions{
			{}, {Ticket: -1}, {Ticket: 5}, {Ticket: next.Ticket(), Head: true}, {Head: true, Reason: strings.Repeat("x", 5000)},
		} {
			if _, err := b.Break(w.Context(), "x", bad); !errors.Is(err, stile.ErrInvalid) {
				w.Errorf("break of %+v: %v; want ErrInvalid", bad, err)
			}
		}
		if _, err := b.Break(w.Context(), "", stile.BreakOptions{Head: true}); !errors.Is(err, stile.ErrInvalid) {
			w.Errorf("no name: %v; want ErrInvalid", err)
		}
		if err := next.Check(); err != nil {
			w.Errorf("the wrong claim was broken: %v", err)
		}
		w.unlock(next)
		w.unlockLost(held)
		synctest.Wait()
	})
}

// The holder's observer gets each request once, at its next renewal, and the lease goes on.
func TestAsk(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("x").With(stile.LockOptions{Owner: "busy"}))
		for i, which := range []stile.BreakOptions{{Head: true}, {Ticket: held.Ticket()}} {
			asked, err := b.Ask(w.Context(), "x", which)
			if err != nil || asked.Holder.Owner != "busy" || !asked.Holds {
				w.Fatalf("ask: %+v, %v", asked, err)
			}
			a.d.Inject(memory.Fault{Verb: memory.Renew, Lose: true})
			pass(30 * time.Second)
			if got, e := a.saw(stile.EventAsked), a.last(stile.EventAsked); got != i+1 || e.Name != "x" || e.Token > held.Token() {
				w.Errorf("the holder was told %d times, of %+v; want %d times, of x", got, e, i+1)
			}
		}
		if err := held.Check(); err != nil {
			w.Errorf("the holder that was asked lost its lease: %v", err)
		}
		w.unlock(held)
		if _, err := b.Ask(w.Context(), "x", stile.BreakOptions{Head: true}); !errors.Is(err, stile.ErrGone) {
			w.Errorf("when nobody holds: %v; want ErrGone", err)
		}
	})
}
