package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/page"
)

// A loss is the end of a lock while CMD ran, or before it could, told to somebody who has to find out why, and what to do now.
type loss struct {
	err   error
	begun bool          // CMD ran
	stood time.Duration // for how long stile itself did not run; 0 if that is not why
	then  string        // what became of CMD
}

func (l *loss) Error() string {
	when := "while CMD ran"
	if !l.begun {
		when = "before CMD began"
	}
	return fmt.Sprintf("the lock was lost %s: %s; %s", when, whyLost(l.err, l.stood), l.then)
}

func (l *loss) Unwrap() error { return l.err }

// whyLost says why a lock was lost, and what that can come from. A process that stood still does not blame the store.
func whyLost(err error, stood time.Duration) string {
	lost, ok := errors.AsType[*stile.LostError](err)
	if !ok {
		return err.Error()
	}
	why := lost.Reason.String()
	if stood > 0 && (lost.Reason == stile.ReasonExpired || lost.Reason == stile.ReasonRemoved) {
		return fmt.Sprintf("%s: stile itself did not run for %v: it was stopped, or the machine was suspended or overloaded", why, rounded(stood))
	}
	switch lost.Reason {
	case stile.ReasonExpired:
		if lost.Err == nil {
			why += ": the store did not answer"
		}
	case stile.ReasonBroken:
		if lost.By != (stile.Holder{}) {
			why += ": " + page.Printable(lost.By.String())
		}
		return why
	case stile.ReasonSessionOver:
		why += ": the store had not heard from this process for too long, or the session was ended by hand"
	case stile.ReasonRemoved, stile.ReasonSuspended, stile.ReasonHeldLong, stile.ReasonShutdown, stile.ReasonUnfit: // they say it
	}
	if lost.Err != nil {
		why += fmt.Sprintf(": %v", lost.Err)
	}
	return why
}
