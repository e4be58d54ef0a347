// Package metricstest makes clients cause every event that the adapters of metrics measure.
package metricstest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// Class returns the part of a name before the first slash.
func Class(name string) string {
	class, _, _ := strings.Cut(name, "/")
	return class
}

// NearMiss is Live's bound of a near miss: a timely renewal leaves more of 15 s, and the late one leaves less.
const NearMiss = 5 * time.Second

// Live makes two clients of one store, each with an observer, go through these events in virtual time, and then calls after:
//
//   - order/1 is handed over to the other client after 2 s, and there at once to another goroutine.
//   - A renewal of job/nightly, with a ttl of 15 s, arrives late; then none does, and the lease is lost.
//   - order/2 is released without an answer of the store.
//   - job/stuck is lost after its MaxHold, and order/3 is held on.
func Live(t *testing.T, observer func() stile.Observer, after func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		open := func() (*memory.Driver, *stile.Client) {
			d := store.Driver()
			client, err := stile.New(d, &stile.Options{Observer: observer()})
			if err != nil {
				t.Fatal(err)
			}
			return d, client
		}
		here, a := open()
		_, b := open()
		defer a.Close()
		defer b.Close()
		take := func(l *stile.Lock) *stile.Lease {
			lease, err := l.Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			return lease
		}

		first := take(a.Mutex("order/1"))
		done := make(chan error)
		for range 2 {
			go func() { done <- take(b.Mutex("order/1")).Unlock() }()
		}
		time.Sleep(2 * time.Second)
		for _, err := range []error{first.Unlock(), <-done, <-done} {
			if err != nil {
				t.Error(err)
			}
		}

		kept := take(a.Mutex("job/nightly"))
		here.SetLink(memory.Refused)
		time.Sleep(9 * time.Second) // of the 13.85 s for which the lease is trusted
		before := kept.Deadline()
		here.Heal()
		for kept.Deadline().Equal(before) && kept.Check() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if err := kept.Check(); err != nil {
			t.Errorf("after a late renewal: %v", err)
		}
		here.SetLink(memory.Refused)
		<-kept.Context().Done()
		here.Heal()
		if kept.Unlock() == nil {
			t.Error("a lease that no renewal reached was not lost")
		}

		here.Inject(memory.Fault{Verb: memory.Leave, Times: -1, Drop: true})
		if take(a.Mutex("order/2")).Unlock() == nil {
			t.Error("a release without an answer succeeded")
		}
		here.Heal()

		stuck := take(b.Mutex("job/stuck").With(stile.LockOptions{MaxHold: time.Second}))
		<-stuck.Context().Done()
		if stuck.Unlock() == nil {
			t.Error("a lease was not lost after its MaxHold")
		}
		last := take(a.Mutex("order/3"))
		synctest.Wait()
		after()
		if err := last.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
