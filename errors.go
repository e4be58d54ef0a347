package stile

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/record"
)

// These are the errors that callers branch on, with errors.Is.
var (
	ErrHeld        = errors.New("the lock is held")                      // returned by a try; see HeldError
	ErrLost        = errors.New("the lease is lost")                     // see LostError
	ErrUnknown     = errors.New("the store's answer never came")         // see UnknownError
	ErrReleased    = claims.ErrReleased                                  // Unlock was called before
	ErrReentrant   = claims.ErrReentrant                                 // and the lock is not opened as re-entrant
	ErrCapacity    = errors.New("the name is in use with other permits") // see driver.CapacityError
	ErrUnreachable = errors.New("the store cannot be reached")           // after Options.Patience; a refused Open says it at once
	ErrInvalid     = claims.ErrInvalid                                   // a name, a time or a number is out of range; reported by Lock
	ErrGone        = driver.ErrGone                                      // Break or Ask found no such claim
	ErrClosed      = driver.ErrClosed                                    // the client was closed
	ErrUnsupported = driver.ErrUnsupported                               // the store cannot do this
	ErrForeign     = driver.ErrForeign                                   // something else uses the lock's place in the store
)

// An Error says which operation failed on which name, and why.
type Error struct {
	Op   string // "lock", "try", "unlock", …
	Name string
	Err  error
}

// Error returns the error in one line.
func (e *Error) Error() string { return fmt.Sprintf("stile: %s %q: %v", e.Op, e.Name, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// A HeldError names the holder of a lock that could not be taken at once. It is [ErrHeld].
type HeldError struct {
	By        Holder
	Remaining time.Duration // lease of the holder, which may be renewed; negative in a lock-delay; 0 if not told
}

// Error names the holder and its lease.
func (e *HeldError) Error() string {
	switch {
	case e.Remaining == 0:
		return fmt.Sprintf("held by %v", e.By)
	case e.Remaining < 0:
		return fmt.Sprintf("held by %v until its lease ran out, and kept from others by its lock-delay", e.By)
	}
	return fmt.Sprintf("held by %v, for %v more unless renewed", e.By, max(e.Remaining.Round(time.Millisecond), time.Millisecond))
}

// Is reports whether the target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A LostError says why a lease ended before its release. It is [ErrLost], and the cause of the lease's context.
type LostError struct {
	Reason Reason
	By     Holder // for ReasonBroken: who broke it, and why; zero if the store does not carry this
	Err    error  // the last failure to renew; nil if there was none
}

// Error gives the reason, and the breaker or the last failure.
func (e *LostError) Error() string {
	switch {
	case e.By != Holder{}:
		return fmt.Sprintf("the lease is lost: %v: %v", e.Reason, e.By)
	case e.Err != nil && e.Reason != ReasonBroken:
		return fmt.Sprintf("the lease is lost: %v: %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("the lease is lost: %v", e.Reason)
}

// Is reports whether the target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the last failure to renew.
func (e *LostError) Unwrap() error { return e.Err }

// A Reason is why a lease was lost.
type Reason int

// The reasons.
const (
	ReasonExpired     Reason = iota + 1 // it could not be renewed before its deadline
	ReasonRemoved                       // the store no longer has the claim, and does not say why: broken by hand, forgotten, or run out
	ReasonSuspended                     // the machine slept past the deadline; seen on Linux only, elsewhere ReasonRemoved
	ReasonHeldLong                      // it was held for LockOptions.MaxHold
	ReasonShutdown                      // its client was closed
	ReasonSessionOver                   // the session that the store kept the claim in is over; of stores that have sessions
	ReasonUnfit                         // the store was connected to again, and no longer has what Options.Require wants
	ReasonBroken                        // somebody removed it by hand; see LostError.By
)

// String returns the reason in words.
func (r Reason) String() string { return claims.ReasonText(protocol.Reason(r)) }

// An UnknownError says that the store may or may not have applied a request: its answer never came. It is [ErrUnknown].
// After a lock, an unwanted claim may be in the store and keep others out; the client has tried to remove it. After an
// unlock, the lock may still be taken.
type UnknownError struct {
	Until time.Time // when such a claim runs out, unless its request is still on its way
	Err   error
}

// Error gives the failure, and the time until which such a claim may last.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("the store's answer never came; a claim may stand until %s: %v", e.Until.UTC().Format(time.RFC3339), e.Err)
}

// Is reports whether the target is ErrUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns the failure.
func (e *UnknownError) Unwrap() error { return e.Err }

// explain turns an inner error into one that callers can branch on, or nil.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var (
		lost    *claims.Lost
		held    *claims.Held
		unknown *claims.Unknown
	)
	if gave, ok := err.(*claims.GaveUp); ok { //nolint:errorlint // the keeper's own answer, not what a caller's cause wraps
		return gaveUpError{gave}
	}
	switch {
	case errors.As(err, &lost):
		e := &LostError{Reason: Reason(lost.Reason), Err: lost.Err}
		if broken, ok := errors.AsType[*driver.BrokenError](lost.Err); ok {
			e.By = holderOf(record.With(broken.Record, broken.Principal))
		}
		return e
	case errors.As(err, &held):
		return &HeldError{By: holderOf(held.By), Remaining: held.Remaining}
	case errors.As(err, &unknown):
		return &UnknownError{Until: unknown.Until, Err: explain(unknown.Err)}
	case errors.As(err, new(*driver.CapacityError)):
		return fmt.Errorf("%w: %w", ErrCapacity, err)
	case driver.IsUnreachable(err):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// A gaveUpError is the cause of a context's end, with the obstacle at that moment.
type gaveUpError struct{ *claims.GaveUp }

func (e gaveUpError) Error() string {
	if e.Held == nil && e.Err == nil {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%v (%v)", e.Cause, e.why())
}

// why returns the obstacle as an error.
func (e gaveUpError) why() error {
	if e.Held != nil {
		return &HeldError{By: holderOf(e.Held.By), Remaining: e.Held.Remaining}
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, cmp.Or(e.Err, protocol.ErrSilent))
}

// wrapped returns the error of an operation on a name, or nil.
func wrapped(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Err: explain(err)}
}
