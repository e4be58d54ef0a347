package run

import (
	"fmt"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/speech"
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
	return fmt.Sprintf("the lock was lost %s: %s; %s", when, speech.WhyLost(l.err, l.stood), l.then)
}

func (l *loss) Unwrap() error { return l.err }
