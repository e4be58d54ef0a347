package stile_test

import (
	"log/slog"
	"strings"
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
		_ = other.Unlock()
		if e := a.last(stile.EventReleased); e.Name != "y" || e.Err == nil {
			w.Errorf("a release whose outcome is unknown: %+v; want the error", e)
		}
		w.unlock(second)
	})
}

func TestLogTo(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	observe := stile.LogTo(log)
	observe(stile.Event{Kind: stile.EventAcquired, Name: "quiet"})
	observe(stile.Event{Kind: stile.EventLost, Name: "a b", Token: 7, Held: time.Second, Err: &stile.LostError{Reason: stile.ReasonRemoved}})
	want := `level=WARN msg="lock lost" name="a b" token=7 held=1s err="the lease is lost: the store no longer has it: removed by hand or lost; it does not say which"` + "\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}

func TestKindsAndReasonsAgreeWithTheInnerOnes(t *testing.T) {
	for i, r := range []stile.Reason{stile.ReasonExpired, stile.ReasonRemoved, stile.ReasonSuspended, stile.ReasonHeldLong, stile.ReasonShutdown, stile.ReasonSessionOver, stile.ReasonUnfit, stile.ReasonBroken} {
		if stile.Reason(stile.InnerReasons[i]) != r || strings.HasPrefix(r.String(), "reason") {
			t.Errorf("reason %d: %v", i, r)
		}
	}
	for i, k := range []stile.Kind{
		stile.EventAcquired, stile.EventWaiting, stile.EventRenewed, stile.EventJeopardy, stile.EventLost, stile.EventReleased,
		stile.EventAsked, stile.EventDisplaced,
	} {
		if stile.Kind(stile.InnerKinds[i]) != k {
			t.Errorf("kind %d: %v", i, k)
		}
	}
}
