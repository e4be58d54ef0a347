package memcached

import (
	"sync"
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// A clock estimates the server's clock, which has whole seconds and is read from answers. Its value is a lower bound: a
// client's clock that stood still or runs slow makes it smaller, never larger. Nothing expires by it. It is used to ask for
// leases that are long enough, and to trust them no longer than they last.
type clock struct {
	mu    sync.Mutex
	shown int64
	at    time.Time     // a moment after the server's clock showed this
	boot  time.Duration // a moment before at, by the clock that counts on while the machine sleeps
}

// driftParts bounds how much faster than the server's clock a client's may run: by one part in driftParts.
const driftParts = 200

// The known time is old when the server's clock may be later by this much, because the client's clock runs slow, or because
// the machine slept. Then the server is asked before a change that may be decided without a read.
const (
	drifted = keepLast / 2 * time.Second
	slept   = time.Second
)

// brief is the time in which a machine is assumed not to have slept: the kernel's answer takes 1.5 µs, and a lock and unlock
// little more than 20. A value that was stored so soon after a sleep is noticed.
const brief = 100 * time.Millisecond

// see notes the server's time from a new answer.
func (c *clock) see(now int64) {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	boot := c.boot + at.Sub(c.at)
	if c.at.IsZero() || at.Sub(c.at) > brief {
		boot, at = boottime.Now(), time.Now()
	}
	if c.at.IsZero() || now >= c.leastAt(at) || old(at.Sub(c.at), boot-c.boot) {
		c.shown, c.at, c.boot = now, at, boot
	}
}

// old reports whether the server's clock may be far later than known.
func (c *clock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.at)
	return passed > brief && old(passed, boottime.Now()-c.boot)
}

// old reports whether a known time is old: passed is its age by a clock that stands still while the machine sleeps, and all
// its age by one that counts on.
func old(passed, all time.Duration) bool { return passed/driftParts > drifted || all-passed > slept }

// least returns the server's present time, or an earlier time.
func (c *clock) least() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leastAt(time.Now())
}

// micros returns the approximate time of the server's clock, in microseconds.
func (c *clock) micros() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seconds(c.shown).Microseconds() + time.Since(c.at).Microseconds()
}

func (c *clock) leastAt(now time.Time) int64 {
	passed := now.Sub(c.at)
	return c.shown + int64((passed-passed/driftParts)/time.Second)
}
