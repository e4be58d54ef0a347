package stile_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

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
