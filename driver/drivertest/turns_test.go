package drivertest

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestPassGivesWay checks that a case goes on after a wait as a test of its own with a new time limit, and that a case that
// waits only a moment keeps its turn.
func TestPassGivesWay(t *testing.T) {
	t.Parallel()
	var names []string
	t.Run("suite", func(t *testing.T) {
		store := memory.NewStore()
		s := Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
		a, b := s.Open(t), s.Open(t)
		t.Cleanup(func() {
			a.Close()
			b.Close()
		})
		c := Case{Name: "Idle", check: func(r *run) {
			for _, length := range []time.Duration{0, worthATurn, time.Millisecond, worthATurn} {
				begin, before := time.Now(), r.ctx
				r.pass(length)
				names = append(names, r.Name())
				if took := time.Since(begin); took < length {
					r.Errorf("%v are over after %v", length, took)
				}
				if gaveWay := before.Err() != nil; gaveWay != (length >= worthATurn) || r.ctx.Err() != nil {
					r.Errorf("after %v, the time before has ended: %v, and the new one is %v", length, gaveWay, r.ctx.Err())
				}
			}
			r.holds(r.a, r.claim())
		}}
		t.Run("case", func(t *testing.T) {
			t.Parallel()
			r := newRun(t, s, a, b, c)
			t.Cleanup(func() { r.cancel() })
			r.inTurns(t, c)
		})
	})
	const first = "TestPassGivesWay/suite/case"
	for i, want := range []string{first, first + "/later", first + "/later", first + "/later/later"} {
		if len(names) != 4 || names[i] != want {
			t.Fatalf("it goes on in %q; want %q at %d", names, want, i)
		}
	}
}
