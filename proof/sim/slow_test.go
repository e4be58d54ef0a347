package sim_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// observed adds a client with this observer, which also gets the client.
func (w *world) observed(see func(*stile.Client, stile.Event)) *peer {
	w.Helper()
	var client atomic.Pointer[stile.Client]
	p := &peer{d: w.store.Driver()}
	c, err := stile.New(p.d, &stile.Options{Observer: func(e stile.Event) { see(client.Load(), e) }})
	if err != nil {
		w.Fatal(err)
	}
	client.Store(c)
	p.Client = c
	w.clients = append(w.clients, p)
	return p
}

// A lease's context ends by its deadline, whether the observer is quick or slow.
func TestSlowObserverDelaysNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		var slow atomic.Bool
		slow.Store(true)
		a := w.observed(func(*stile.Client, stile.Event) {
			if slow.Load() {
				<-time.After(18 * time.Second)
			}
		})
		var leases [8]*stile.Lease
		for i := range leases {
			leases[i] = w.lock(a.Mutex(string(rune('a' + i))))
		}
		began := time.Now()
		a.d.SetLink(memory.Silent)
		for _, l := range leases {
			<-l.Context().Done()
		}
		if d := time.Since(began); d > 15*time.Second {
			w.Errorf("the contexts ended after %v; the ttl is 15s", d)
		}
		a.d.Heal()
		slow.Store(false)
		for _, l := range leases {
			if d := lasts(l.Unlock); d > 5*time.Second {
				w.Errorf("unlock lasted %v", d)
			}
		}
		pass(30 * time.Second)
	})
}

// The client drops and counts the events for which an observer is too slow.
func TestSlowObserverIsToldHowMuchItMissed(t *testing.T) {
	inWorld(t, func(w *world) {
		blocked := make(chan struct{})
		var seen, dropped int64
		a := w.observed(func(_ *stile.Client, e stile.Event) {
			<-blocked
			seen++
			dropped += e.Dropped
		})
		w.unlock(w.lock(a.Mutex("x")))
		synctest.Wait()     // now the observer is busy with the first
		const rounds = 3000 // of two events
		for range rounds {
			w.unlock(w.lock(a.Mutex("x")))
		}
		close(blocked)
		synctest.Wait()
		w.unlock(w.lock(a.Mutex("x")))
		synctest.Wait()
		if dropped == 0 || seen+dropped != 2*rounds+4 {
			w.Errorf("told of %d events and of %d that were dropped; want %d in all", seen, dropped, 2*rounds+4)
		}
	})
}

// An observer may use the client: lock, unlock, and close it.
func TestObserverUsesItsClient(t *testing.T) {
	inWorld(t, func(w *world) {
		done, first := make(chan error, 1), true
		a := w.observed(func(c *stile.Client, e stile.Event) {
			if e.Kind == stile.EventReleased && e.Name == "x" && first {
				first = false
				done <- c.Mutex("x").Do(context.Background(), func(context.Context) error { return nil })
			}
		})
		w.unlock(w.lock(a.Mutex("x")))
		synctest.Wait()
		select {
		case err := <-done:
			if err != nil {
				w.Error(err)
			}
		default:
			w.Fatal("an observer that locks waits for itself")
		}
	})
}

// The observer may call Close, which ends then too.
func TestObserverClosesItsClient(t *testing.T) {
	inWorld(t, func(w *world) {
		lasted := make(chan time.Duration, 1)
		a := w.observed(func(c *stile.Client, e stile.Event) {
			if e.Kind == stile.EventAcquired {
				lasted <- lasts(c.Close)
			}
		})
		lease := w.lock(a.Mutex("x"))
		if d := <-lasted; d > 5*time.Second {
			w.Errorf("Close lasted %v; want Patience at most", d)
		}
		if err := lease.Check(); !errors.Is(err, stile.ErrLost) {
			w.Errorf("the lease: %v; want ErrLost", err)
		}
	})
}
