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
	var walk func(st stake, seen map[state]bool)
	walk = func(st stake, seen map[state]bool) {
		if seen[st.state] {
			return
		}
		seen[st.state] = true
		if st.stands() != (st.gone == nil) {
			t.Errorf("state %d: stands %v, gone %v", st.state, st.stands(), st.gone)
		}
		for next := claimAsking; next <= last; next++ {
			now := st
			moved := now.become(next, driver.ErrGone)
			switch {
			case moved != (now.state == next):
				t.Errorf("from %d to %d: it says %v, and is in %d", st.state, next, moved, now.state)
			case !st.stands() && now.stands():
				t.Errorf("from %d to %d: a claim that is gone stands again", st.state, next)
			case st.state == last && now.state != last:
				t.Errorf("from the end to %d", now.state)
			}
			walk(now, seen)
		}
	}
	for from := claimAsking; from <= claimHolding; from++ {
		seen := map[state]bool{}
		walk(stake{state: from}, seen)
		for s := claimKept; s <= last; s++ {
			if !seen[s] {
				t.Errorf("from %d nothing leads to %d", from, s)
			}
		}
	}
	for s := claimAsking; s <= last; s++ {
		st := stake{state: s}
		if st.become(claimOver, driver.ErrSession); st.state != last {
			t.Errorf("the end of its session leaves a claim in state %d", st.state)
		}
	}
	st := stake{state: claimHolding}
	st.end()
	st.become(claimOver, driver.ErrSession)
	if errors.Is(st.gone, driver.ErrSession) {
		t.Errorf("a lease that ran out, and then its session: %v; want what came first", st.gone)
	}
}
