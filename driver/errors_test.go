package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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
	tests := []struct {
		err                   error
		rejected, unreachable bool
	}{
		{plain, false, false},
		{context.DeadlineExceeded, false, false},
		{driver.Rejected(plain), true, false},
		{driver.Unreachable(plain), false, true},
		{driver.Rejected(driver.Unreachable(plain)), true, true},
		{fmt.Errorf("more: %w", driver.Unreachable(driver.Rejected(plain))), true, true},
		{errors.Join(plain, driver.Rejected(plain)), true, false},
		{&driver.CapacityError{Have: 1, Want: 2}, true, false},
		{fmt.Errorf("more: %w", driver.ErrGone), true, false},
		{driver.ErrUnsupported, true, false},
		{driver.ErrForeign, true, false},
		{driver.ErrClosed, true, false},
		{nil, false, false},
	}
	for _, test := range tests {
		if got := driver.IsRejected(test.err); got != test.rejected {
			t.Errorf("IsRejected(%v) = %v, want %v", test.err, got, test.rejected)
		}
		if got := driver.IsUnreachable(test.err); got != test.unreachable {
			t.Errorf("IsUnreachable(%v) = %v, want %v", test.err, got, test.unreachable)
		}
	}
	if driver.Rejected(nil) != nil || driver.Unreachable(nil) != nil {
		t.Error("a mark makes an error of nil")
	}
	if marked := driver.Rejected(plain); !errors.Is(marked, plain) || marked.Error() != plain.Error() {
		t.Errorf("the marked error is %q; want it to be and to read as %q", marked, plain)
	}
}

func TestGradeText(t *testing.T) {
	for g := driver.NoFencing; g <= driver.DurableFencing; g++ {
		if g.String() == "" {
			t.Errorf("grade %d has no text", int(g))
		}
	}
}
