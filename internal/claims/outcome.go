package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/record"
)

// ErrInvalid is the error of an invalid request.
var ErrInvalid = errors.New("invalid")

// Reasons why a hold is over without a loss, and why it cannot be detached.
var (
	ErrReleased = errors.New("the lease is already released")
	ErrShared   = fmt.Errorf("%w: the claim is shared inside this process", driver.ErrUnsupported)
)

// A Held is the error that somebody is in the way.
type Held struct {
	By        string // the holder's record with its principal; empty if the store does not return it
	Remaining time.Duration
}

func (e *Held) Error() string { return "held" }

// A Lost is the reason why a hold ended before its release, or why a claim lost its place.
type Lost struct {
	Reason protocol.Reason
	Err    error // the last failure to renew, or nil
}

func (e *Lost) Error() string { return ReasonText(e.Reason) }

// An Unknown is the error of a request that the store may or may not have applied.
type Unknown struct {
	Until time.Time // when a claim that it may have left behind has run out
	Err   error
}

func (e *Unknown) Error() string { return e.Err.Error() }

func (e *Unknown) Unwrap() error { return e.Err }

// A GaveUp is the error of a caller whose context ended, with the obstacle of that moment.
type GaveUp struct {
	Cause error // of the context
	Held  *Held // the holder, or nil
	Err   error // without a holder: the last failure to ask the store, or nil

	k    *Keeper
	name string
}

// Holder asks the store for the present holder of the name.
func (e *GaveUp) Holder(ctx context.Context) *Held {
	held := &Held{}
	ctx, cancel := context.WithTimeout(ctx, min(time.Second, e.k.conf.Patience))
	defer cancel()
	if l, ok := e.k.d.(driver.Lister); ok {
		if list, err := l.List(ctx, &driver.Query{Name: e.name}); err == nil && len(list) > 0 && len(list[0].Claims) > 0 {
			first := &list[0].Claims[0]
			held.By, held.Remaining = record.With(first.Record, first.Principal), first.Remaining
		}
	}
	return held
}

func (e *GaveUp) Error() string { return e.Cause.Error() }

func (e *GaveUp) Unwrap() error { return e.Cause }

// Within acquires within a time; tooLong is then the cause of the context. If the time was over before the store was asked,
// it tries for one second more, so that the error names the obstacle.
func Within[T any](
	ctx context.Context, most time.Duration, tooLong error, acquire func(context.Context, bool) (T, error),
) (T, error) {
	once := func(most time.Duration, try bool) (has T, late bool, err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, most, tooLong)
		defer cancel()
		has, err = acquire(ctx, try)
		_, asked := errors.AsType[interface {
			error
			Holder(ctx context.Context) *Held
		}](err)
		return has, !asked && errors.Is(err, tooLong), err
	}
	has, late, err := once(most, false)
	if late {
		has, late, err = once(time.Second, true)
	}
	if late {
		err = &GaveUp{Cause: tooLong}
	}
	return has, err
}

// ReasonText returns a reason in words.
func ReasonText(r protocol.Reason) string {
	switch r {
	case protocol.Expired:
		return "it could not be renewed in time"
	case protocol.Removed:
		return "the store no longer has it: removed by hand or lost; it does not say which"
	case protocol.Suspended:
		return "the machine was suspended past its deadline"
	case protocol.HeldLong:
		return "it was held as long as it may be"
	case protocol.Shutdown:
		return "its client was closed"
	case protocol.SessionOver:
		return "the session that it lived in is over"
	case protocol.ByHand:
		return "somebody removed it by hand"
	case protocol.Unfit:
		return "the store no longer promises what is required"
	}
	return fmt.Sprintf("reason %d", int(r))
}

// errorOf returns the error for a verdict, or nil.
func (k *Keeper) errorOf(v *protocol.Verdict) error {
	switch v.Code {
	case protocol.Held:
		return heldBy(v)
	case protocol.Lost:
		return &Lost{Reason: v.Reason, Err: v.Err}
	case protocol.Refused:
		return v.Err
	case protocol.Unreachable:
		return k.unreachable(v.Err)
	case protocol.Doubtful:
		return &Unknown{Err: k.unreachable(v.Err)}
	case protocol.Closed:
		return driver.ErrClosed
	case protocol.Shared:
		return ErrShared
	}
	return nil
}

// dated adds to an error of unknown outcome when a claim with this ttl has run out.
func (k *Keeper) dated(err error, ttl time.Duration) error {
	if unknown, ok := err.(*Unknown); ok { //nolint:errorlint // errorOf made it
		unknown.Until = k.ghost(ttl)
	}
	return err
}

func heldBy(v *protocol.Verdict) *Held {
	return &Held{By: record.With(v.By, v.Principal), Remaining: v.Remaining}
}

// unreachable returns the error of a store that did not answer.
func (k *Keeper) unreachable(err error) error {
	if err == nil {
		err = protocol.ErrSilent
	}
	return driver.Unreachable(fmt.Errorf("tried for %v: %w", k.conf.Patience, err))
}

// outcomeOf translates a driver's error.
func outcomeOf(err error) protocol.Outcome {
	if err == nil {
		return protocol.Answered
	}
	switch driver.OutcomeOf(err) {
	case driver.OutcomeUnsent:
		return protocol.Unsent
	case driver.OutcomeRefused:
		switch {
		case driver.IsUnreachable(err):
			return protocol.Unsent
		case errors.As(err, new(*driver.BrokenError)):
			return protocol.Broken
		case errors.Is(err, driver.ErrSession):
			return protocol.Adrift
		case errors.Is(err, driver.ErrGone):
			return protocol.Absent
		}
		return protocol.Rejected
	}
	return protocol.Unknown
}

// failure returns a driver's error for people. The end of a request's own context means the store's silence.
func failure(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return protocol.ErrSilent
	}
	return err
}
