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
