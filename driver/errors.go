package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// These are the errors that drivers return, besides the errors of their clients.
var (
	ErrGone        = errors.New("the claim is no longer in the store")
	ErrSession     = fmt.Errorf("%w: the session that it lived in is over", ErrGone)
	ErrUnsupported = errors.New("the store cannot do this")
	ErrClosed      = errors.New("the client is closed")
	ErrForeign     = errors.New("the place where the lock is kept holds a value that is not stile's")
)

// A CapacityError is the error of a claim whose name is in use with another capacity.
type CapacityError struct{ Have, Want int64 }

func (e *CapacityError) Error() string {
	return fmt.Sprintf("exists with %s, asked for %s", capacity(e.Have), capacity(e.Want))
}

func capacity(n int64) string {
	if n == All {
		return "no permits (a mutex or a reader and writer)"
	}
	return fmt.Sprint(n)
}

// A BrokenError says that somebody removed the claim by hand. It is [ErrGone]. A driver returns it if it knows the reason. A
// driver that does not know returns ErrGone, so ErrGone does not exclude a break.
type BrokenError struct {
	Record    string // of the BreakRequest, perhaps cut; "" if unknown
	Principal string // who removed it; see [ClaimInfo.Principal]
}

func (e *BrokenError) Error() string { return "somebody removed the claim by hand" }

// Unwrap returns [ErrGone].
func (e *BrokenError) Unwrap() error { return ErrGone }

// A RecordError says that the claim does not have the record that an amendment should replace.
type RecordError struct{ Have string }

func (e *RecordError) Error() string {
	return "the claim has another record than the one that was to be replaced"
}

// An Outcome is the known outcome of a request that got an error.
type Outcome int

// The outcomes. Every error of a [Driver] has one; an error without a mark has OutcomeUnknown.
const (
	OutcomeUnknown Outcome = iota // it may have been applied, or may still be applied
	OutcomeUnsent                 // it certainly never left this process; the store has not judged it
	OutcomeRefused                // the store said no: it was not applied, and never will be
)

// String names the outcome in a word.
func (o Outcome) String() string {
	return [...]string{"unknown", "unsent", "refused"}[o]
}

// Unsent marks the error of a request that certainly never left this process: there was no connection, the context ended
// first, or the request waited behind another. For a request of several steps it says that the step that changes the store
// never left. It says nothing about the store, and the next caller may get an answer.
func Unsent(err error) error { return mark(OutcomeUnsent, err) }

// Refused marks a request that the store did not apply and never will. The same request by another caller gets the
// same answer, unless the error is [Unreachable] too, for example because the server is still loading. Never put it
// around the end of a context, or around an error that is [Unsent].
func Refused(err error) error { return mark(OutcomeRefused, err) }

// Unknown says that the outcome of a request is unknown, whatever the wrapped error says: that error may be about another
// request, a part of this one, or one store of several.
func Unknown(err error) error { return mark(OutcomeUnknown, err) }

// NotYet marks the error of a step before the one that changes the store, such as a first read of the queue. A refusal of
// the store stays a refusal, and with any other error the request is [Unsent].
func NotYet(err error) error {
	if err == nil || OutcomeOf(err) == OutcomeRefused {
		return err
	}
	return Unsent(err)
}

// Afterwards marks the error of a step after the one that changed the store. Whatever the error's own mark, it does
// not say that the request was not applied. It does not change a verdict on the claim, such as [ErrGone].
func Afterwards(err error) error {
	var (
		c *CapacityError
		r *RecordError
	)
	if err == nil || errors.Is(err, ErrGone) || errors.Is(err, ErrForeign) || errors.As(err, &c) || errors.As(err, &r) {
		return err
	}
	return Unknown(err)
}

// Ended returns the error of a call that ends with its caller's context: [Unsent] if nothing was sent yet, otherwise
// [Unknown]. It is nil if the context has not ended. [errors.Is] and [errors.As] find the context's cause in the error, but
// no error or mark of this package: the cause is the caller's, for example that another claim is gone, and says nothing
// about this request.
//
// If the deadline has passed and the context's timer has not fired yet, Ended waits for it, for at most a second:
// connections keep the same deadline by the clock, and on a busy machine their error comes first. Only the context knows its
// cause.
func Ended(ctx context.Context, sent bool) error {
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(end) {
		due := time.NewTimer(time.Second)
		defer due.Stop()
		select {
		case <-ctx.Done():
		case <-due.C:
		}
	}
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if err := error(&ended{cause}); sent {
		return Unknown(err)
	} else {
		return Unsent(err)
	}
}

// An ended error is a context's cause without its marks of this package.
type ended struct{ cause error }

func (e *ended) Error() string { return e.cause.Error() }

// Is is the cause's Is, but hides this package's errors.
func (e *ended) Is(target error) bool {
	return !slices.Contains(words, target) && errors.Is(e.cause, target)
}

// As is the same for types.
func (e *ended) As(target any) bool {
	switch target.(type) {
	case **marked, **unreachable, **CapacityError, **RecordError, **BrokenError:
		return false
	}
	return errors.As(e.cause, target)
}

// words are the errors that are an answer of the store or the driver.
var words = []error{ErrGone, ErrSession, ErrUnsupported, ErrClosed, ErrForeign}

func mark(o Outcome, err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, o}
}

type marked struct {
	error
	outcome Outcome
}

func (m *marked) Unwrap() error { return m.error }

// OutcomeOf returns the known outcome of the request that got this error. The outermost mark decides. Without one, the
// errors of this package are refusals.
func OutcomeOf(err error) Outcome {
	var (
		m *marked
		c *CapacityError
		r *RecordError
	)
	switch {
	case errors.As(err, &m):
		return m.outcome
	case errors.As(err, &c), errors.As(err, &r), errors.Is(err, ErrGone), errors.Is(err, ErrForeign),
		errors.Is(err, ErrUnsupported), errors.Is(err, ErrClosed):
		return OutcomeRefused
	}
	return OutcomeUnknown
}

// NotApplied reports whether the request that got this error was certainly not applied: it was unsent or refused.
func NotApplied(err error) bool { return OutcomeOf(err) != OutcomeUnknown }

// Unreachable marks an error that says that the store could not be asked: there is no connection, or the server is not
// ready. The same request may work a moment later. The mark itself does not say that the request was not applied.
func Unreachable(err error) error {
	if err == nil {
		return nil
	}
	return &unreachable{err}
}

// IsUnreachable reports whether an error was marked by [Unreachable].
func IsUnreachable(err error) bool {
	var u *unreachable
	return errors.As(err, &u)
}

type unreachable struct{ error }

func (u *unreachable) Unwrap() error { return u.error }
