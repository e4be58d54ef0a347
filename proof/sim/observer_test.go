package sim_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

func TestObserverIsToldWhatHappens(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		held := w.lock(a.Mutex("x"))
		waiting := w.inLine(w.Context(), b.Mutex("x"))
		own := w.inLine(w.Context(), b.Mutex("x"))
		pass(time.Minute)
		w.unlock(held)
		lease := w.got(waiting)
		first := b.last(stile.EventAcquired)
		w.unlock(lease)
		second := w.got(own)
		if e := b.last(stile.EventAcquired); first.Local || !e.Local || first.Waited != time.Minute || e.Token != second.Token() || e.Name != "x" {
			w.Errorf("acquired: %+v, then %+v", first, e)
		}
		if n := b.saw(stile.EventWaiting); n != 1 {
			w.Errorf("told of waiting %d times; want once", n)
		}
		if e := a.last(stile.EventRenewed); e.Margin < 5*time.Second || e.Margin > 15*time.Second {
			w.Errorf("renewed: %+v; want the margin that was left", e)
		}
		if e := a.last(stile.EventReleased); e.Held != time.Minute || e.Token != held.Token() || e.Err != nil {
			w.Errorf("released: %+v", e)
		}
		a.d.Inject(memory.Fault{Verb: memory.Leave, Times: -1, Drop: true})
		other := w.lock(a.Mutex("y"))
		if err := other.Unlock(); err == nil {
			w.Error("an unlock whose answers are all lost says that it is done")
		}
		if e := a.last(stile.EventReleased); e.Name != "y" || e.Err == nil {
			w.Errorf("a release whose outcome is unknown: %+v; want the error", e)
		}
		w.unlock(second)
	})
}
