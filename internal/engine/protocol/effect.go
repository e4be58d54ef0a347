package protocol

import (
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/slab"
)

// A Do says what an [Effect] wants done.
type Do uint8

// What the shell does for the engine.
const (
	Send  Do = iota + 1 // send a request; Answered is to be called with its number
	Cut                 // end the request that is out for the claim; its answer is still awaited
	Trust               // the claim is trusted until Until; Err is why the last renewal failed, or nil; observers learn of renewals by it
	Grant               // a waiter becomes a holder
	Fail                // the waiter gets the verdict
	End                 // the hold is over, for the verdict's reason
	Done                // the releaser or the amender of the hold gets the verdict
	Gone                // the slot of the claim is free; nothing of it is asked for any more
	Tell                // observers are told the event, which no other effect says
)

// A Verb is a request to the store.
type Verb uint8

// The requests, by the methods of [driver.Driver].
const (
	Nothing Verb = iota
	Enter
	Await
	Renew // it may go in a batch with others
	Leave
)

// An Effect is one thing that the shell is to do. Not all fields go with every kind.
type Effect struct {
	Do     Do
	Verb   Verb
	Amend  bool      // of Renew: the claim is to be changed with it, as its hold Turn wants
	Turn   slab.Slot // a waiter or a hold
	Claim  slab.Slot
	Number uint64        // of the request
	Limit  time.Duration // how long the request may take; of Renew, until the deadline
	Keep   time.Duration // of Leave
	Held   time.Duration // of End and Done: how long the turn lasted
	Until  Time          // of Trust
	Verdict
	Event Event
}

// A Code says how something ended.
type Code uint8

// How a wait or a release ends, or a hold.
const (
	Pending     Code = iota // not yet: an effect follows
	OK                      // as it should
	Held                    // somebody is in the way
	Lost                    // the claim or the hold is lost, for the reason
	Refused                 // the store said no
	Unreachable             // the store did not answer, and nothing was applied
	Doubtful                // the store did not answer, and the request may have been applied
	Closed                  // the client is closed
	Shared                  // others share the claim, so it cannot be detached or amended
)

// ErrSilent is the failure of a store that has said nothing at all.
var ErrSilent = errors.New("the store does not answer")

// A Verdict is how something ended, and why.
type Verdict struct {
	Code      Code
	Reason    Reason        // of Lost
	Err       error         // the last failure, if there was one
	By        string        // of Held: the record of who is in the way, if the store told
	Remaining time.Duration // of Held: the rest of the blocker's lease, if the store returned it
}

// HeldBy is the verdict that somebody is in the way.
func HeldBy(who *driver.ClaimInfo) Verdict {
	return Verdict{Code: Held, By: who.Record, Remaining: who.Remaining}
}

// A Reason says why a hold was lost.
type Reason uint8

// The reasons.
const (
	Expired     Reason = iota + 1 // it could not be renewed before its deadline
	Removed                       // the store no longer has the claim
	Suspended                     // the machine slept past the deadline
	HeldLong                      // it was held for Want.MaxHold
	Shutdown                      // the client was closed
	SessionOver                   // the session that the claim lived in is over
	Unfit                         // the store no longer has a required trait
	ByHand                        // somebody removed the claim by hand
)

// An Event is one thing that observers are told. Not all fields go with every kind.
type Event struct {
	Kind                 Kind
	Token                int64
	Waited, Margin, Held time.Duration
	Local                bool
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

// Displaced is the kind of an event: the store no longer has a waiting claim, and its waiters enter again, at the tail. Kinds that
// the engine has no part in come before it.
const Displaced = Released + 3
