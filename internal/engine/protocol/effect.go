package protocol

import (
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/slab"
)

// A Do is the kind of an [Effect].
type Do uint8

// The kinds of effects: the steps of the shell.
const (
	Send  Do = iota + 1 // send a request; its Answer has the number of the effect
	Cut                 // end the claim's request under way; its answer is still awaited
	Trust               // trust the claim until Until; Err is the last renewal's failure, or nil; observers learn of renewals
	Grant               // the waiter becomes a holder
	Fail                // the waiter gets the verdict
	End                 // the hold is over, for the verdict's reason
	Done                // the releaser or the amender of the hold gets the verdict
	Gone                // the slot of the claim is free, and nothing more is asked for it
	Tell                // observers get the event, which no other effect carries
)

// A Verb is a request to the store.
type Verb uint8

// The requests, by the methods of [driver.Driver].
const (
	Nothing Verb = iota
	Enter
	Await
	Renew // several may go in one batch
	Leave
)

// An Effect is one step of the shell. Not all fields go with every kind.
type Effect struct {
	Do     Do
	Verb   Verb
	Amend  bool      // of Renew: carries the change that its hold Turn wants
	Turn   slab.Slot // a waiter or a hold
	Claim  slab.Slot
	Number uint64        // of the request
	Limit  time.Duration // the longest duration of the request; of Renew, until the deadline
	Keep   time.Duration // of Leave
	Held   time.Duration // of End and Done: the length of the turn
	Until  Time          // of Trust
	Verdict
	Event Event
}

// A Code is the result of a wait, a release or a hold.
type Code uint8

// The results.
const (
	Pending     Code = iota // none yet: an effect follows
	OK                      // success
	Held                    // somebody is in the way
	Lost                    // the claim or the hold is lost, for Reason
	Refused                 // the store said no
	Unreachable             // the store did not answer, and nothing was applied
	Doubtful                // the store did not answer, and the request may have been applied
	Closed                  // the client is closed
	Shared                  // others share the claim, so it cannot be detached or amended
)

// ErrSilent is the failure of a store that has given no answer at all.
var ErrSilent = errors.New("the store does not answer")

// A Verdict is a result with its reason.
type Verdict struct {
	Code      Code
	Reason    Reason        // of Lost
	Err       error         // the last failure, or nil
	By        string        // of Held: the blocker's record, if the store returned it
	Principal string        // of Held: see [driver.ClaimInfo]
	Remaining time.Duration // of Held: the rest of the blocker's lease, if the store returned it
}

// HeldBy returns the verdict that another claim is in the way.
func HeldBy(who *driver.ClaimInfo) Verdict {
	return Verdict{Code: Held, By: who.Record, Principal: who.Principal, Remaining: who.Remaining}
}

// A Reason is why a hold was lost.
type Reason uint8

// The reasons.
const (
	Expired     Reason = iota + 1 // it could not be renewed before its deadline
	Removed                       // the store no longer has the claim
	Suspended                     // the machine slept past the deadline
	HeldLong                      // it lasted longer than Want.MaxHold
	Shutdown                      // the client was closed
	SessionOver                   // the claim's session is over
	Unfit                         // the store no longer has a required trait
	ByHand                        // somebody removed the claim by hand
)

// An Event is a message for observers. Not all fields go with every kind.
type Event struct {
	Kind                 Kind
	Token                int64
	Waited, Margin, Held time.Duration
	Local                bool
}

// A Kind is the kind of an event.
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

// Displaced is the kind of an event: the store no longer has a waiting claim, and its waiters enter again, at the tail. The
// kinds before it include some without a part of the engine.
const Displaced = Released + 3
