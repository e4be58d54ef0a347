package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A deaf driver does not learn that somebody broke a claim.
type deaf struct{ *memory.Driver }

func (deaf) Alert(func(ids ...string)) {}

// forget removes all claims of a name without an event, as a restart without data does.
func (w *world) forget(p *peer, name string) {
	list, err := p.d.List(w.Context(), &driver.Query{Name: name})
	if err != nil || len(list) != 1 {
		w.Fatal(list, err)
	}
	for _, c := range slices.Backward(list[0].Claims) { // the holder last, so that no waiter gets the lock meanwhile
		if _, err := p.d.Break(w.Context(), &driver.BreakRequest{Name: name, Ticket: c.Ticket}); err != nil {
			w.Fatal(err)
		}
	}
}

// In TestWaitersOutlastWhatTheStoreForgot a store forgets a holder and 50 waiters. Each waiter holds in the end, and none
// before the holder knows of its loss. A newcomer may hold at once: the holder learns of the loss at its next renewal, a
// third of its ttl later.
func TestWaitersOutlastWhatTheStoreForgot(t *testing.T) {
	const waiters, ttl = 50, 15 * time.Second
	for _, stranger := range []bool{false, true} {
		t.Run(fmt.Sprintf("stranger %v", stranger), func(t *testing.T) {
			inWorld(t, func(w *world) {
				silent := func(m *memory.Driver) driver.Driver { return deaf{m} }
				a := w.over(nil, silent)
				held := w.lock(a.Mutex("x"))
				all := make([]*peer, waiters)
				got := make(chan *stile.Lease, waiters)
				for i := range all {
					all[i] = &peer{d: w.store.Driver()}
					w.admit(all[i], deaf{all[i].d}, all[i].observed(&stile.Options{}))
					line := w.inLine(w.Context(), all[i].Mutex("x"))
					go func() {
						r := <-line
						if r.err != nil {
							w.Error(r.err)
						}
						if err := held.Check(); err == nil && !stranger {
							w.Error("a waiter holds, and the holder that the store forgot does not know")
						}
						got <- r.Lease
					}()
				}
				pass(30 * time.Second)
				w.forget(a, "x")
				flushed := time.Now()
				if stranger {
					first := w.lock(w.join(nil).Mutex("x"))
					<-held.Context().Done()
					if overlap := time.Since(flushed); overlap > ttl/3 {
						w.Errorf("the holder that the store forgot goes on for %v; want a third of its ttl at most", overlap)
					}
					w.unlock(first)
				}
				for range waiters {
					lease := <-got
					if lease.Check() != nil {
						w.Error("a waiter holds a lease that is over")
					}
					w.unlock(lease)
				}
				for i := range all {
					if n := all[i].saw(stile.EventDisplaced); n != 1 {
						w.Errorf("waiter %d was displaced %d times by its events; want once", i, n)
					}
				}
				t.Logf("all held %v after the store forgot them", time.Since(flushed))
				w.unlockLost(held)
			})
		})
	}
}

// TestDisplacedReclaimerEnds checks that a waiter that reclaims does not enter again: a later run of its owner may have
// removed it.
func TestDisplacedReclaimerEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		silent := func(m *memory.Driver) driver.Driver { return deaf{m} }
		a, b := w.over(nil, silent), w.over(nil, silent)
		job := stile.LockOptions{Owner: "job", Reclaim: true}
		held := w.lock(w.join(nil).Mutex("x"))
		earlier := w.inLine(w.Context(), a.Mutex("x").With(job))
		later := w.inLine(w.Context(), b.Mutex("x").With(job))
		if r := <-earlier; !errors.Is(r.err, stile.ErrLost) {
			w.Errorf("the earlier run: %v; want ErrLost", r.err)
		}
		w.unlock(held)
		w.unlock(w.got(later))
	})
}

// TestTryBesideADisplacedWaiter checks that the client refuses a try while its own waiters wait until the former holder
// knows of its loss.
func TestTryBesideADisplacedWaiter(t *testing.T) {
	inWorld(t, func(w *world) {
		silent := func(m *memory.Driver) driver.Driver { return deaf{m} }
		a, b := w.over(nil, silent), w.over(nil, silent)
		held := w.lock(a.Mutex("x"))
		waiting := w.inLine(w.Context(), b.Mutex("x"))
		w.forget(a, "x")
		pass(5 * time.Second)
		if _, err := b.Mutex("x").TryLock(w.Context()); !errors.Is(err, stile.ErrHeld) {
			w.Errorf("a try: %v; want ErrHeld", err)
		}
		w.unlock((<-waiting).Lease)
		w.unlockLost(held)
	})
}
