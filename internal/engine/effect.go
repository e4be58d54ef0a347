package engine

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// A Do says what an [Effect] wants done.
type Do uint8

// What the shell does for the engine.
const (
	Send  Do = iota + 1 // send a request; Answered is to be called with its number
	Cut                 // end the request that is out for the claim; its answer is still awaited
	Trust               // the claim is trusted until Until; Err is why the last renewal failed, or nil
	Grant               // the waiter has the hold
	Fail                // the waiter gets the verdict
	End                 // the hold is over, for the verdict's reason
	Done                // whoever releases, detaches or amends the hold, or attaches the claim, gets the verdict
	Gone                // the slot of the claim is free; nothing of it is asked for any more
	Tell                // observers are told the event
)

// A Verb is a request to the store.
type Verb uint8

// The requests, by the methods of [driver.Driver].
const (
	Nothing Verb = iota
	Enter
	Await
	Renew  // of one claim, for Detach and Attach
	Extend // a renewal that may go in a batch with others
	Leave
)

// An Effect is one thing that the shell is to do. Not all fields go with every kind.
type Effect struct {
	Do     Do
	Verb   Verb
	Amend  bool // of Extend: the claim is to be changed with it, as its hold Turn wants
	Turn   Slot // a waiter or a hold
	Claim  Slot
	Number uint64        // of the request
	Limit  time.Duration // how long the request may take; of Extend, until the deadline
	Keep   time.Duration // of Leave
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
	Doubtful                // the store did not answer, and what was asked for may have been applied
	Closed                  // the client is closed
	Shared                  // others share the claim, so it cannot be detached or amended
)

// A Verdict is how something ended, and why.
type Verdict struct {
	Code      Code
	Reason    Reason        // of Lost
	Err       error         // the last failure, if there was one
	By        string        // of Held: the record of who is in the way, if the store told
	Remaining time.Duration // of Held: what is left of that one's lease, if the store told
}

func heldBy(who *driver.ClaimInfo) Verdict {
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

// An Outcome is what became of a request.
type Outcome int

// The outcomes. The first four are the store's answers.
const (
	Answered Outcome = iota
	Absent           // the claim is not there
	Adrift           // the claim went with the session that it lived in
	Rejected         // the store said no, and will again
	Unsent           // the request never left, or the store cannot say yes or no now
	Unknown          // it may have been applied, or may be applied yet
)

// A Reply is what became of a request.
type Reply struct {
	Claim   Slot
	Number  uint64
	Sent    Time // a moment before the request was sent
	Outcome Outcome
	Place   driver.Place  // of Enter and Await
	TTL     time.Duration // of Renew and Extend: the lease that the store confirmed
	Err     error         // of all outcomes after Adrift
}

func (r *Reply) ok() bool { return r.Outcome == Answered }

// answered reports whether the store said anything.
func (r *Reply) answered() bool { return r.Outcome < Unsent }

// missing reports whether the store does not have the claim.
func (r *Reply) missing() bool { return r.Outcome == Absent || r.Outcome == Adrift }

// verdict is what the request came to, for whoever waits for it.
func (r *Reply) verdict() Verdict {
	switch r.Outcome {
	case Answered:
		return Verdict{Code: OK}
	case Absent:
		return Verdict{Code: Lost, Reason: Removed}
	case Adrift:
		return Verdict{Code: Lost, Reason: SessionOver}
	case Rejected:
		return Verdict{Code: Refused, Err: r.Err}
	}
	return Verdict{Code: Unreachable, Err: r.Err}
}
