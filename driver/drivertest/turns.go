package drivertest

import (
	"iter"
	"testing"
	"time"
)

// worthATurn is how long a case lets pass, at the least, if others run meanwhile.
const worthATurn = time.Second

// inTurns runs a case of a suite. While the case only lets time pass, it is no test that runs: what comes then is a subtest, and
// begins behind the tests that wait for their turn already. So the suite does not stand still for a client that is to be idle.
func (r *run) inTurns(t *testing.T, c Case) {
	next, _ := iter.Pull(func(giveWay func(struct{}) bool) { // a case that fails ends here, and with it the test that asked for more
		r.giveWay = func() { giveWay(struct{}{}) }
		r.does(c)
	})
	r.goesOn(t, next)
}

// goesOn runs a case until it lets time pass, and the rest later.
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

// pass waits. In a suite other cases have their turn meanwhile, so it may become much longer.
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
