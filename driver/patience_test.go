package driver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatienceIsForSilence checks that a context of WithPatience outlasts work that reports progress, and ends when the
// reports cease.
func TestPatienceIsForSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, sum, silent := time.Now(), 0, errors.New("nothing was heard")
		counted := WhenHeard(t.Context(), func(n int) { sum += n })
		outer, giveUp := WithPatience(counted, 5*time.Second, errors.New("a"))
		defer giveUp()
		inner, done := WithPatience(outer, 4*time.Second, silent) // as for one node of several
		defer done()
		for range 10 {
			time.Sleep(3 * time.Second) // in virtual time
			Heard(inner, 7)
		}
		if err := outer.Err(); err != nil || sum != 70 {
			t.Errorf("after 30 s with progress: %v, %d looked at; want nil, 70", err, sum)
		}
		if end, ok := inner.Deadline(); !ok || end.Sub(began) != 34*time.Second {
			t.Errorf("the deadline is after %v; want 34 s", end.Sub(began))
		}
		<-inner.Done()
		if d := time.Since(began); d != 34*time.Second || outer.Err() != nil || !errors.Is(context.Cause(inner), silent) {
			t.Errorf("the inner one ended after %v by %v; want 34 s, and not the outer one", d, context.Cause(inner))
		}
		<-outer.Done()
		if d := time.Since(began); d != 35*time.Second {
			t.Errorf("the outer one ended after %v; want 35 s", d)
		}
	})
}

// TestHeardLate calls Heard without WithPatience, and after the request is over. Both calls do nothing.
func TestHeardLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Heard(t.Context(), 1)
		ctx, done := WithPatience(t.Context(), time.Second, context.DeadlineExceeded)
		done()
		Heard(ctx, 1)
		time.Sleep(2 * time.Second) // in virtual time
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			t.Errorf("the context ended by %v; want that it was cancelled", cause)
		}
	})
}
