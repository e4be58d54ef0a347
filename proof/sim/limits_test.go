package sim_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

const forever = time.Duration(math.MaxInt64)

// The longest durations mean no limit.
func TestTheLongestTimesDoNotOverflow(t *testing.T) {
	inWorld(t, func(w *world) {
		o := &stile.Options{Turn: forever, Patience: forever, LockOptions: stile.LockOptions{MaxHold: forever}}
		a := w.join(o)
		lease := w.lock(a.Mutex("x"))
		waits := w.inLine(w.Context(), a.Mutex("x"))
		pass(time.Hour)
		if err := lease.Check(); err != nil {
			w.Errorf("after an hour: %v", err)
		}
		if left := time.Until(lease.Deadline()); left < time.Second || left > 15*time.Second {
			w.Errorf("the deadline is in %v", left)
		}
		w.unlock(lease)
		w.unlock(w.got(waits))
		within, err := a.Mutex("x").LockWithin(w.Context(), forever)
		if err != nil {
			w.Fatal(err)
		}
		h, err := within.Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		again, err := a.Attach(w.Context(), h)
		if err != nil {
			w.Fatal(err)
		}
		if err := again.UnlockAfter(forever); err != nil {
			w.Error(err)
		}
		pass(24 * time.Hour)
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims are left after a day", n)
		}
	})
}

// New refuses a drift that is a large part of the time.
func TestDriftIsChecked(t *testing.T) {
	for _, drift := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.01, 0.11, 1} {
		c, err := stile.New(memory.New(), &stile.Options{Drift: drift})
		if !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("drift %v: %v; want ErrInvalid", drift, err)
		}
		if c != nil {
			c.Close()
		}
	}
}

// New refuses options that leave no time to renew. With accepted options a lease lasts as long as the store answers.
func TestMarginAndDriftLeaveTimeToRenew(t *testing.T) {
	for _, drift := range []float64{0, 0.05, 0.1} {
		for _, margin := range []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 7 * time.Second, 15 * time.Second, forever} {
			inWorld(t, func(w *world) {
				a := w.join(&stile.Options{Drift: drift, Margin: margin})
				a.d.Inject(memory.Fault{Verb: memory.Renew, Times: -1, After: time.Second})
				lease, err := a.Mutex("x").Lock(w.Context())
				if err != nil {
					if !errors.Is(err, stile.ErrInvalid) || margin < 4*time.Second {
						w.Errorf("drift %v, margin %v: %v", drift, margin, err)
					}
					return
				}
				pass(10 * time.Minute)
				if err := lease.Check(); err != nil || margin > 8*time.Second {
					w.Errorf("drift %v, margin %v was accepted, and after ten minutes: %v", drift, margin, err)
				}
				a.d.Heal()
				w.unlock(lease)
			})
		}
	}
}
