package speech

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

func TestEventText(t *testing.T) {
	for _, tt := range []struct {
		event stile.Event
		want  string
	}{
		{stile.Event{Kind: stile.EventAcquired, Name: "a", Token: 1024, Waited: 2512 * time.Millisecond}, `"a" is held, by ticket 1024, after 2.5s`},
		{stile.Event{Kind: stile.EventRenewed, Name: "a", Margin: 9876 * time.Millisecond}, `"a" was renewed, with 9.9s left`},
		{stile.Event{Kind: stile.EventJeopardy, Name: "a", Err: errors.New("no route")}, `"a" could not be renewed, and is tried again: no route`},
		{stile.Event{Kind: stile.EventLost, Name: "a", Held: time.Minute, Err: &stile.LostError{Reason: stile.ReasonHeldLong}},
			`"a" was lost after 1m0s: ` + stile.ReasonHeldLong.String()},
		{stile.Event{Kind: stile.EventReleased, Name: "a", Held: 123456 * time.Microsecond}, `"a" was released after 123ms`},
		{stile.Event{Kind: stile.EventReleased, Name: "a", Err: stile.ErrUnknown},
			`"a" was released after 0s, but the store did not confirm it: the store's answer never came`},
		{stile.Event{Kind: stile.EventAsked, Name: "a"}, `somebody asks for "a"`},
		{
			stile.Event{Kind: stile.EventDisplaced, Name: "a"},
			`the claim on "a" is gone from the queue, lost or removed by hand, and enters again at the tail once its holder knows`,
		},
		{stile.Event{Kind: stile.EventWaiting, Name: "a"}, ""},
	} {
		if got := eventText(tt.event); got != tt.want {
			t.Errorf("%v: %q; want %q", tt.event.Kind, got, tt.want)
		}
	}
}
