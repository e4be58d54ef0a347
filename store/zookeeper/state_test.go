package zookeeper

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
)

// Whatever happens to a claim, in any order: once it is not wanted any more it never stands again, it knows why, its end can
// be reached from everywhere, and nothing comes after that.
func TestStates(t *testing.T) {
	t.Parallel()
	const last = claimOver
	var walk func(lc localClaim, seen map[state]bool)
	walk = func(lc localClaim, seen map[state]bool) {
		if seen[lc.state] {
			return
		}
		seen[lc.state] = true
		if lc.stands() != (lc.gone == nil) {
			t.Errorf("state %d: stands %v, gone %v", lc.state, lc.stands(), lc.gone)
		}
		for next := claimAsking; next <= last; next++ {
			now := lc
			moved := now.become(next, driver.ErrGone)
			switch {
			case moved != (now.state == next):
				t.Errorf("from %d to %d: it says %v, and is in %d", lc.state, next, moved, now.state)
			case !lc.stands() && now.stands():
				t.Errorf("from %d to %d: a claim that is gone stands again", lc.state, next)
			case lc.state == last && now.state != last:
				t.Errorf("from the end to %d", now.state)
			}
			walk(now, seen)
		}
	}
	for from := claimAsking; from <= claimHolding; from++ {
		seen := map[state]bool{}
		walk(localClaim{state: from}, seen)
		for s := claimKept; s <= last; s++ {
			if !seen[s] {
				t.Errorf("from %d nothing leads to %d", from, s)
			}
		}
	}
	for s := claimAsking; s <= last; s++ {
		lc := localClaim{state: s}
		if lc.become(claimOver, driver.ErrSession); lc.state != last {
			t.Errorf("the end of its session leaves a claim in state %d", lc.state)
		}
	}
	lc := localClaim{state: claimHolding}
	lc.end()
	lc.become(claimOver, driver.ErrSession)
	if errors.Is(lc.gone, driver.ErrSession) {
		t.Errorf("a lease that ran out, and then its session: %v; want what came first", lc.gone)
	}
}
