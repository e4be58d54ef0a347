package sim_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A worsening driver promises less from some time on, as a store may after a failover.
type worsening struct {
	*memory.Driver
	unfit atomic.Bool
}

func (d *worsening) Traits() driver.Traits {
	t := d.Driver.Traits()
	if d.unfit.Load() {
		t.Unfit("memory yes", "It forgets.")
	}
	return t
}

// The client checks its requirements again whenever the store lets a claim hold: if the store promises less by then, its
// leases are lost and its grants refused, and no claim stays in it.
func TestRequiredIsLookedAtAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		var d *worsening
		a := w.over(&stile.Options{Require: []driver.Trait{driver.TraitFit}}, func(m *memory.Driver) driver.Driver {
			d = &worsening{Driver: m}
			return d
		})
		easy := w.join(nil)
		first := w.lock(a.Mutex("first"))
		behind := w.lock(easy.Mutex("behind"))
		waited := make(chan error, 1)
		go func() {
			_, err := a.Mutex("behind").Lock(w.Context())
			waited <- err
		}()
		pass(time.Second)

		d.unfit.Store(true)
		pass(15 * time.Second)
		lost, ok := errors.AsType[*stile.LostError](context.Cause(first.Context()))
		const why = "the lease is lost: the store no longer promises what is required: the store cannot do this: " +
			"memory lacks fit, which is required; It forgets. Better: memory yes"
		if !ok || lost.Reason != stile.ReasonUnfit || !errors.Is(lost, stile.ErrUnsupported) || lost.Error() != why {
			t.Errorf("the lease ended as %v; want %s", context.Cause(first.Context()), why)
		}
		if err := first.Unlock(); !errors.Is(err, stile.ErrLost) {
			t.Errorf("unlock = %v; want ErrLost", err)
		}
		w.unlock(behind)
		if err := <-waited; !errors.Is(err, stile.ErrUnsupported) || !strings.Contains(err.Error(), "lacks fit") {
			t.Errorf("a waiter whose turn comes = %v; want ErrUnsupported", err)
		}
		if _, err := a.Mutex("next").TryLock(w.Context()); !errors.Is(err, stile.ErrUnsupported) {
			t.Errorf("try = %v; want ErrUnsupported", err)
		}
		pass(time.Second)
		if left, err := easy.List(w.Context(), ""); err != nil || len(left) > 0 {
			t.Errorf("the store has %+v (%v); want nothing", left, err)
		}
		w.unlock(w.lock(easy.Mutex("first"))) // a client that requires nothing goes on

		d.unfit.Store(false)
		w.unlock(w.lock(a.Mutex("first")))

		behind = w.lock(easy.Mutex("behind"))
		go func() {
			_, err := a.Mutex("behind").Lock(w.Context())
			waited <- err
		}()
		pass(time.Second)
		d.unfit.Store(true) // the claim's turn comes before the client asks for its place again
		w.unlock(behind)
		if err := <-waited; !errors.Is(err, stile.ErrUnsupported) {
			t.Errorf("a waiter whose turn comes at once = %v; want ErrUnsupported", err)
		}
	})
}
