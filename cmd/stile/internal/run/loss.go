package run

import (
	"fmt"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/speech"
)

// A loss explains to a person why a lock was lost while CMD ran, or before it could run, and what to do now.
type loss struct {
	err   error
	begun bool          // CMD ran
	stood time.Duration // how long stile itself did not run; 0 if that is not the reason
	then  string        // how CMD ended
}

func (l *loss) Error() string {
	when := "while CMD ran"
	if !l.begun {
		when = "before CMD began"
	}
	return fmt.Sprintf("the lock was lost %s: %s; %s", when, speech.WhyLost(l.err, l.stood), l.then)
}

func (l *loss) Unwrap() error { return l.err }
