package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

func TestCapacityErrorText(t *testing.T) {
	tests := []struct {
		have, want int64
		text       string
	}{
		{5, 3, "exists with 5, asked for 3"},
		{5, driver.All, "exists with 5, asked for no permits (a mutex or a reader and writer)"},
		{driver.All, 1, "exists with no permits (a mutex or a reader and writer), asked for 1"},
	}
	for _, test := range tests {
		if got := (&driver.CapacityError{Have: test.have, Want: test.want}).Error(); got != test.text {
			t.Errorf("have %d, want %d: %q, want %q", test.have, test.want, got, test.text)
		}
	}
}

func TestMarks(t *testing.T) {
	plain := errors.New("connection reset")
	const unknown, unsent, refused = driver.OutcomeUnknown, driver.OutcomeUnsent, driver.OutcomeRefused
	tests := []struct {
		err         error
		outcome     driver.Outcome
		unreachable bool
	}{
		{plain, unknown, false},
		{context.DeadlineExceeded, unknown, false},
		{driver.Refused(plain), refused, false},
		{driver.Unsent(plain), unsent, false},
		{driver.Unknown(driver.ErrGone), unknown, false},
		{fmt.Errorf("more: %w", driver.Unknown(driver.Refused(plain))), unknown, false},
		{driver.Unsent(driver.Refused(plain)), unsent, false},
		{driver.NotYet(plain), unsent, false},
		{driver.NotYet(context.Canceled), unsent, false},
		{driver.NotYet(driver.Unsent(driver.Refused(plain))), unsent, false},
		{driver.NotYet(driver.Refused(driver.Unreachable(plain))), refused, true},
		{driver.NotYet(driver.ErrForeign), refused, false},
		{driver.Afterwards(driver.Unsent(driver.Unreachable(plain))), unknown, true},
		{driver.Afterwards(driver.Refused(plain)), unknown, false},
		{driver.Afterwards(driver.ErrClosed), unknown, false},
		{driver.Afterwards(driver.ErrSession), refused, false},
		{driver.Afterwards(&driver.CapacityError{Have: 1, Want: 2}), refused, false},
		{driver.Unreachable(plain), unknown, true},
		{driver.Unsent(driver.Unreachable(plain)), unsent, true},
		{driver.Refused(driver.Unreachable(plain)), refused, true},
		{fmt.Errorf("more: %w", driver.Unreachable(driver.Refused(plain))), refused, true},
		{errors.Join(plain, driver.Refused(plain)), refused, false},
		{&driver.CapacityError{Have: 1, Want: 2}, refused, false},
		{fmt.Errorf("more: %w", driver.ErrGone), refused, false},
		{driver.ErrUnsupported, refused, false},
		{driver.ErrForeign, refused, false},
		{driver.ErrClosed, refused, false},
		{nil, unknown, false},
	}
	for _, test := range tests {
		if got := driver.OutcomeOf(test.err); got != test.outcome {
			t.Errorf("OutcomeOf(%v) = %v, want %v", test.err, got, test.outcome)
		}
		if got := driver.NotApplied(test.err); got != (test.outcome != unknown) {
			t.Errorf("NotApplied(%v) = %v, with outcome %v", test.err, got, test.outcome)
		}
		if got := driver.IsUnreachable(test.err); got != test.unreachable {
			t.Errorf("IsUnreachable(%v) = %v, want %v", test.err, got, test.unreachable)
		}
	}
	for _, mark := range []func(error) error{driver.Refused, driver.Unsent, driver.Unknown, driver.NotYet, driver.Afterwards, driver.Unreachable} {
		if mark(nil) != nil {
			t.Error("a mark makes an error of nil")
		}
		if marked := mark(plain); !errors.Is(marked, plain) || marked.Error() != plain.Error() {
			t.Errorf("the marked error is %q; want it to be and to read as %q", marked, plain)
		}
	}
}

type reason struct{ error }

func (r *reason) Unwrap() error { return r.error }

// TestEnded checks that the error of an ended context wraps its cause, and is never an answer of the store.
// unheard is a context whose deadline has passed, and whose timer has not fired yet.
type unheard struct{ context.Context }

func (unheard) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

func TestEndedBeforeItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("too slow")
		for sent, want := range map[bool]driver.Outcome{false: driver.OutcomeUnsent, true: driver.OutcomeUnknown} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
			err := driver.Ended(unheard{ctx}, sent)
			if got := driver.OutcomeOf(err); !errors.Is(err, cause) || got != want {
				t.Errorf("sent %v: %v, outcome %v; want the cause, %v", sent, err, got, want)
			}
		}
		if err := driver.Ended(unheard{t.Context()}, true); err != nil {
			t.Errorf("a context that never ends has ended: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		if err := driver.Ended(ctx, true); err != nil || time.Since(begin) > 0 {
			t.Errorf("a context with an hour left: %v after %v", err, time.Since(begin))
		}
	})
}

func TestEnded(t *testing.T) {
	if err := driver.Ended(t.Context(), true); err != nil {
		t.Errorf("a context that goes on has ended: %v", err)
	}
	words := []error{
		driver.ErrGone, driver.ErrSession, driver.ErrClosed, driver.ErrForeign, driver.ErrUnsupported,
	}
	causes := []error{
		errors.New("enough"), context.DeadlineExceeded, &driver.CapacityError{Have: 1, Want: 2},
		driver.Refused(driver.Unreachable(errors.New("another store"))),
	}
	for _, cause := range append(causes, words...) {
		cause := &reason{cause}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for sent, want := range map[bool]driver.Outcome{false: driver.OutcomeUnsent, true: driver.OutcomeUnknown} {
			err := fmt.Errorf("more: %w", driver.Ended(ctx, sent))
			if got := driver.OutcomeOf(err); got != want || driver.IsUnreachable(err) {
				t.Errorf("%v, sent %v: outcome %v, unreachable %v; want %v, false", err, sent, got, driver.IsUnreachable(err), want)
			}
			var is *reason
			if !errors.Is(err, cause) || !errors.As(err, &is) || is != cause {
				t.Errorf("%v, sent %v: it is not the cause", err, sent)
			}
			for _, word := range words {
				if errors.Is(err, word) {
					t.Errorf("%v, sent %v: it says %q of the request", err, sent, word)
				}
			}
			if c, ok := errors.AsType[*driver.CapacityError](err); ok {
				t.Errorf("%v, sent %v: it has the capacity error %v", err, sent, c)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := driver.Ended(ctx, false); !errors.Is(err, context.Canceled) {
		t.Errorf("without a cause: %v; want the context's own error", err)
	}
}

func TestGradeText(t *testing.T) {
	for g := driver.NoFencing; g <= driver.DurableFencing; g++ {
		if g.String() == "" {
			t.Errorf("grade %d has no text", int(g))
		}
	}
}
