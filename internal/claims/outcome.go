package claims

import (
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// ErrReleased is why a hold is over that was released.
var ErrReleased = errors.New("the lease is already released")

// A Held says who is in the way of a try.
type Held struct {
	By        string // the holder's record
	Remaining time.Duration
}

func (e *Held) Error() string { return "held" }

// A Lost says why a hold ended before it was released, or why a claim lost its place.
type Lost struct {
	Reason Reason
	Err    error // the last failure to renew, if there was one
}

func (e *Lost) Error() string { return e.Reason.String() }

// An Unknown says that the store may or may not have applied a request.
type Unknown struct {
	Until time.Time // when a claim that it left behind has run out
	Err   error
}

func (e *Unknown) Error() string { return e.Err.Error() }

func (e *Unknown) Unwrap() error { return e.Err }

func isHeld(err error) bool {
	_, ok := errors.AsType[*Held](err)
	return ok
}

// A Reason says why a hold was lost.
type Reason int

// The reasons.
const (
	Expired     Reason = iota + 1 // it could not be renewed before its deadline
	Removed                       // the store no longer has the claim
	Suspended                     // the machine slept past the deadline
	HeldLong                      // it was held for Want.MaxHold
	Shutdown                      // the keeper was closed
	SessionOver                   // the session that the claim lived in is over
)

// goneFor is the reason behind a driver's [driver.ErrGone].
func goneFor(err error) Reason {
	if errors.Is(err, driver.ErrSession) {
		return SessionOver
	}
	return Removed
}

// String says it in words.
func (r Reason) String() string {
	switch r {
	case Expired:
		return "it could not be renewed in time"
	case Removed:
		return "the store no longer has it"
	case Suspended:
		return "the machine was suspended past its deadline"
	case HeldLong:
		return "it was held as long as it may be"
	case Shutdown:
		return "its client was closed"
	case SessionOver:
		return "the session that it lived in is over"
	}
	return fmt.Sprintf("reason %d", int(r))
}

// An Event is one thing that happened. Not all fields go with every kind.
type Event struct {
	Kind                 Kind
	Name                 string
	Token                int64
	Waited, Margin, Held time.Duration
	Local                bool
	Err                  error
}

// A Kind says what happened.
type Kind int

// The kinds of events.
const (
	Acquired    Kind = iota + 1 // a turn began
	Waiting                     // a claim stands in the store's queue and does not hold yet
	Renewed                     // the store confirmed a renewal
	Jeopardized                 // a renewal failed; it is tried again until the deadline
	Ended                       // a hold ended before it was released
	Released                    // a hold was released
)
