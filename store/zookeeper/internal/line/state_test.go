package line

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// Whatever happens to a claim, in any order: a claim that is no longer wanted never stands again and has a reason, and it
// can reach its end from each state and never leaves the end.
func TestStates(t *testing.T) {
	t.Parallel()
	const last = claimOver
	var walk func(l lease, seen map[state]bool)
	walk = func(l lease, seen map[state]bool) {
		if seen[l.state] {
			return
		}
		seen[l.state] = true
		if l.stands() != (l.gone == nil) {
			t.Errorf("state %d: stands %v, gone %v", l.state, l.stands(), l.gone)
		}
		for next := claimAsking; next <= last; next++ {
			now := l
			moved := now.become(next, driver.ErrGone)
			switch {
			case moved != (now.state == next):
				t.Errorf("from %d to %d: it says %v, and is in %d", l.state, next, moved, now.state)
			case !l.stands() && now.stands():
				t.Errorf("from %d to %d: a claim that is gone stands again", l.state, next)
			case l.state == last && now.state != last:
				t.Errorf("from the end to %d", now.state)
			}
			walk(now, seen)
		}
	}
	for from := claimAsking; from <= claimHolding; from++ {
		seen := map[state]bool{}
		walk(lease{state: from}, seen)
		for s := claimKept; s <= last; s++ {
			if !seen[s] {
				t.Errorf("from %d nothing leads to %d", from, s)
			}
		}
	}
	for s := claimAsking; s <= last; s++ {
		l := lease{state: s}
		if l.become(claimOver, driver.ErrSession); l.state != last {
			t.Errorf("the end of its session leaves a claim in state %d", l.state)
		}
	}
	l := lease{state: claimHolding}
	l.become(claimEnding, driver.ErrGone)
	l.become(claimOver, driver.ErrSession)
	if errors.Is(l.gone, driver.ErrSession) {
		t.Errorf("a lease that ran out, and then its session: %v; want what came first", l.gone)
	}
}

// A lease ends at its time or with its session, whichever comes first, and is never made shorter.
func TestLease(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what        string
		state       state
		now         time.Duration
		sessionOver bool
		want        state
		gone        error
	}{
		{"before its time", claimHolding, 9, false, claimHolding, nil},
		{"at its time", claimHolding, 10, false, claimEnding, driver.ErrGone},
		{"its session is over", claimWaiting, 9, true, claimOver, driver.ErrSession},
		{"both", claimAsking, 10, true, claimOver, driver.ErrSession},
		{"it was ended before", claimEnding, 10, true, claimEnding, driver.ErrGone},
		{"it is kept", claimKept, 10, false, claimKept, driver.ErrGone},
	} {
		l := lease{state: test.state}
		if !l.stands() {
			l.gone = driver.ErrGone
		}
		l.prolong(4, 6)
		l.prolong(5, 1)
		l.pass(test.now, test.sessionOver)
		if l.state != test.want || !errors.Is(l.gone, test.gone) || (l.gone == nil) != (test.gone == nil) {
			t.Errorf("%s: it is in state %d, %v; want %d, %v", test.what, l.state, l.gone, test.want, test.gone)
		}
	}
}
