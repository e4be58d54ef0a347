package memcached

import (
	"sync"
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// A clock estimates the server's clock, which has whole seconds and is read off answers. Its value is a lower bound:
// a client's clock that stood still, or runs slow, makes it less, never more. Nothing expires by it; it serves to ask
// for leases that are long enough, and to trust them for no longer than they last.
type clock struct {
	mu    sync.Mutex
	shown int64
	at    time.Time     // a moment after the server's clock showed that
	boot  time.Duration // a moment before at, by the clock that goes on while the machine sleeps
}

// driftParts is how much faster than the server's clock a client's may run: one part in so many.
const driftParts = 200

// The knowledge is old when the server's clock may show so much more by now, because the client's clock runs slow, or
// because the machine slept. The server is asked then before a change, which may be decided without a read.
const (
	drifted = keepLast / 2 * time.Second
	slept   = time.Second
)

// brief is for how long a machine is taken not to have slept: asking takes the kernel 1.5 µs, and a lock and unlock
// little more than 20. A value that is stored after a sleep so soon is found out.
const brief = 100 * time.Millisecond

// see notes the server's time from an answer that has just come.
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

// old reports whether the server's clock may show far more by now than is known.
func (c *clock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.at)
	return passed > brief && old(passed, boottime.Now()-c.boot)
}

// old reports whether a time is old that was told so long ago, by a clock that stands still while the machine sleeps, and by one
// that goes on.
func old(passed, all time.Duration) bool { return passed/driftParts > drifted || all-passed > slept }

// least returns the server's present time, or less.
func (c *clock) least() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leastAt(time.Now())
}

// micros returns about the time of the server's clock, in microseconds.
func (c *clock) micros() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seconds(c.shown).Microseconds() + time.Since(c.at).Microseconds()
}

func (c *clock) leastAt(now time.Time) int64 {
	passed := now.Sub(c.at)
	return c.shown + int64((passed-passed/driftParts)/time.Second)
}
