package speech

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

func TestWhyLost(t *testing.T) {
	for want, err := range map[string]error{
		"it could not be renewed in time: the store did not answer":                                                                      &stile.LostError{Reason: stile.ReasonExpired},
		"it could not be renewed in time: refused":                                                                                       &stile.LostError{Reason: stile.ReasonExpired, Err: fmt.Errorf("refused")},
		"the store no longer has it: removed by hand or lost; it does not say which":                                                     &stile.LostError{Reason: stile.ReasonRemoved},
		"the machine was suspended past its deadline":                                                                                    &stile.LostError{Reason: stile.ReasonSuspended},
		"it was held for as long as --max-hold allows":                                                                                   errors.New("it was held for as long as --max-hold allows"),
		"the session that it lived in is over: the store had not heard from this process for too long, or the session was ended by hand": &stile.LostError{Reason: stile.ReasonSessionOver},
	} {
		if got := WhyLost(err, 0); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	const want = "it could not be renewed in time: stile itself did not run for 4s: it was stopped, or the machine was suspended or overloaded"
	if got := WhyLost(&stile.LostError{Reason: stile.ReasonExpired}, 4*time.Second); got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}
