package protocol

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/slab"
)

// An Outcome is the outcome of a request.
type Outcome int

// The outcomes. The first six are the store's answers.
const (
	Answered Outcome = iota
	Absent           // the store does not have the claim
	Adrift           // the claim went with its session
	Broken           // the store does not have the claim: somebody removed it by hand
	Rejected         // the store said no, and will again
	Lacking          // the claim is renewed, and the store no longer has a required trait; of Renew only
	Unsent           // the request never left, or the store cannot say yes or no now
	Unknown          // it may have been applied, or may still be
)

// A Reply is the answer to a request, or its failure.
type Reply struct {
	Claim   slab.Slot
	Number  uint64
	Sent    Time // a moment before the request was sent
	Outcome Outcome
	Place   driver.Place  // of Enter and Await
	TTL     time.Duration // of Renew: the lease that the store confirmed
	Err     error         // of all outcomes after Adrift
}

// OK reports whether the store fulfilled the request.
func (r *Reply) OK() bool { return r.Outcome == Answered }

// Answered reports whether the store gave any answer.
func (r *Reply) Answered() bool { return r.Outcome < Unsent }

// Missing reports whether the store does not have the claim.
func (r *Reply) Missing() bool {
	return r.Outcome == Absent || r.Outcome == Adrift || r.Outcome == Broken
}

// Verdict returns the outcome of the request for its waiter.
func (r *Reply) Verdict() Verdict {
	switch r.Outcome {
	case Answered:
		return Verdict{Code: OK}
	case Absent:
		return Verdict{Code: Lost, Reason: Removed}
	case Adrift:
		return Verdict{Code: Lost, Reason: SessionOver}
	case Broken:
		return Verdict{Code: Lost, Reason: ByHand, Err: r.Err}
	case Lacking:
		return Verdict{Code: Lost, Reason: Unfit, Err: r.Err}
	case Rejected:
		return Verdict{Code: Refused, Err: r.Err}
	}
	return Verdict{Code: Unreachable, Err: r.Err}
}
