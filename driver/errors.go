package driver

import (
	"errors"
	"fmt"
)

// What drivers answer, beside the errors of their clients.
var (
	ErrGone        = errors.New("the claim is no longer in the store")
	ErrSession     = fmt.Errorf("%w: the session that it lived in is over", ErrGone)
	ErrUnsupported = errors.New("the store cannot do this")
	ErrClosed      = errors.New("the client is closed")
	ErrForeign     = errors.New("the place where the lock is kept holds a value that is not stile's")
)

// A CapacityError says that a name is in use with another capacity.
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

// Rejected marks an error as definite: the store did not apply the request, and never will.
func Rejected(err error) error {
	if err == nil {
		return nil
	}
	return &rejected{err}
}

// IsRejected reports whether the request that got this error was certainly not applied.
func IsRejected(err error) bool {
	var (
		r *rejected
		c *CapacityError
	)
	return errors.As(err, &r) || errors.As(err, &c) || errors.Is(err, ErrGone) ||
		errors.Is(err, ErrUnsupported) || errors.Is(err, ErrForeign) || errors.Is(err, ErrClosed)
}

type rejected struct{ error }

func (r *rejected) Unwrap() error { return r.error }

// Unreachable marks an error that says that the store could not be asked: no connection, or one that is not ready to
// serve. The same request may work a moment later. It does not by itself say that the request was not applied.
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
