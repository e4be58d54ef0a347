package memcached

import (
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// knowsOf makes a client know a time of its server that is a number of seconds behind.
func knowsOf(d store, behind int64) *clock {
	c := &d.(*Driver).exchanger.link.latest().clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown -= behind
	return c
}

// A client does not hold by a value that the server has dropped at once: it asks for the time, and enters again.
func TestWhatIsStoredInThePastIsNotHeld(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t, "-M")
	idle, other := open(t, s.Addr, ""), open(t, s.Addr, "")
	c, next := claim("name", "idle"), claim("name", "other")
	c.TTL, next.TTL = 15*time.Second, 15*time.Second
	knowsOf(idle, 432) // as after a day
	if p := enter(t, idle, c); !p.Holds || p.TTL < c.TTL-2*time.Second {
		t.Errorf("enter of the client that was idle = %+v; want it to hold for %v", p, c.TTL)
	}
	waits(t, other, next)
	if err := leave(t, idle, c); err != nil {
		t.Errorf("leave = %v", err)
	}
	holds(t, other, next)
}

// A client that was idle for a day, or whose machine slept, asks for the time before it stores its claim, and stores it
// once.
func TestAnIdleClientDoesNotGuess(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ passed, slept, behind time.Duration }{
		"a day":   {24 * time.Hour, 0, 432 * time.Second},
		"a sleep": {time.Second, time.Hour, time.Hour},
	} {
		s := servertest.Memcached(t)
		d := open(t, s.Addr, "")
		c := knowsOf(d, int64(test.behind/time.Second))
		c.mu.Lock()
		c.at, c.boot = c.at.Add(-test.passed), c.boot-test.passed-test.slept
		c.shown -= int64((test.passed - test.passed/driftParts) / time.Second)
		c.mu.Unlock()
		holds(t, d, claim("name", "a"))
		if got := counters(s)["cmd_set"]; got != 1 || c.old() {
			t.Errorf("after %s it stored %d times, and the time is old: %v; want once, and not", what, got, c.old())
		}
	}
}

// The time is old if the server may drop a value before half of its life.
func TestOldTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		passed, slept time.Duration
		want          bool
	}{
		{0, 0, false},
		{time.Minute, 500 * time.Millisecond, false},
		{99 * time.Minute, 0, false},
		{101 * time.Minute, 0, true},
		{time.Minute, 2 * time.Second, true},
	} {
		if got := old(test.passed, test.passed+test.slept); got != test.want {
			t.Errorf("after %v, and a sleep of %v, the time is old: %v; want %v", test.passed, test.slept, got, test.want)
		}
	}
}

// A holder has left when its empty queue was stored, even if the server drops it at once.
func TestLeavesInThePast(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t, "-M")
	d := open(t, s.Addr, "")
	c := claim("name", "a")
	holds(t, d, c)
	knowsOf(d, 3600)
	if err := leave(t, d, c); err != nil {
		t.Errorf("leave = %v; want nil", err)
	}
	holds(t, open(t, s.Addr, ""), claim("name", "b"))
}
