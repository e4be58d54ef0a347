package drivertest

import (
	"iter"
	"testing"
	"time"
)

// worthATurn is the shortest wait during which a case lets others run.
const worthATurn = time.Second

// inTurns runs a case of a suite. While the case only waits, it does not count as a running test: its rest is a subtest,
// which queues behind the tests that already wait for their turn. So an idle client does not stop the suite.
func (r *run) inTurns(t *testing.T, c Case) {
	next, _ := iter.Pull(func(giveWay func(struct{}) bool) { // a failed case ends here, and its test with it
		r.giveWay = func() { giveWay(struct{}{}) }
		r.does(c)
	})
	r.goesOn(t, next)
}

// goesOn runs a case until it waits, and the rest later.
func (r *run) goesOn(t *testing.T, next func() (struct{}, bool)) {
	r.TB = t
	r.anewTime()
	if _, more := next(); more {
		t.Run("later", func(t *testing.T) {
			t.Parallel()
			r.goesOn(t, next)
		})
	}
}

// pass waits. In a suite other cases run meanwhile, so the wait may be much longer.
func (r *run) pass(length time.Duration) {
	r.Helper()
	over := time.Now().Add(length)
	if r.giveWay != nil && length >= worthATurn {
		r.giveWay()
	}
	left := time.NewTimer(time.Until(over))
	defer left.Stop()
	select {
	case <-left.C:
	case <-r.ctx.Done():
		r.Fatalf("the case did not end in time")
	}
}
