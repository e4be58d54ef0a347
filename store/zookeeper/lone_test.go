package zookeeper_test

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// calm has a driver lock and unlock a name that nobody else wants until it knows so, and returns how often it did.
func calm(t *testing.T, d driver.Driver, name string) int {
	t.Helper()
	const times = 5
	for range times {
		c := claim(name)
		enter(t, d, c, true)
		leave(t, d, c)
	}
	return times
}

// Who has a name alone need not ask who else is there.
func TestLoneNeedNotLook(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	for _, layout := range []string{"mutex", "rw", "latch"} {
		d := open(t, "zk://"+s.Addr+"?session=60s&layout="+layout)
		calm(t, d, layout)
		before := traffic(t, s)
		const rounds = 20
		for range rounds {
			c := claim(layout)
			enter(t, d, c, true)
			leave(t, d, c)
		}
		// Two requests and their answers. The rest is for what it takes to ask for the count, and what keeps the session.
		if sum, most := traffic(t, s)-before, 4*rounds+rounds/2; sum > most {
			t.Errorf("layout %s: %d times take %d packets; want at most %d", layout, rounds, sum, most)
		}
	}
}

// Who has had a name alone waits for another who came meanwhile, and not for one who came and went.
func TestLoneIsNotAlone(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a, b := open(t, "zk://"+s.Addr), open(t, "zk://"+s.Addr)
	const name = "not alone"
	for range 3 {
		calm(t, a, name)
		other, own := claim(name), claim(name)
		enter(t, b, other, true)
		enter(t, a, own, false)
		leave(t, b, other)
		woken(t, a, own)
		enter(t, a, own, true)
		leave(t, a, own)
		calm(t, a, name)
		other, own = claim(name), claim(name)
		enter(t, b, other, true)
		leave(t, b, other)
		enter(t, a, own, true)
		leave(t, a, own)
	}
}

// A name's node that was removed and made again counts anew. Its next number may be that which the driver expects.
func TestLoneOfAnotherParent(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a, b, by := open(t, "zk://"+s.Addr), open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	const name = "another"
	n := calm(t, a, name)
	by.remove("/stile/" + name)
	for range n - 1 {
		c := claim(name)
		enter(t, b, c, true)
		leave(t, b, c)
	}
	holder, own := claim(name), claim(name)
	enter(t, b, holder, true)
	enter(t, a, own, false)
}
