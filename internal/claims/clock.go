package claims

import (
	"sync/atomic"
	"time"
)

// A clock tells how long its keeper has existed, the time that the machine slept included. Go's monotonic clock stands
// still while a machine is suspended, and a lease in the store does not.
//
// Wall clocks decide nothing. Under testing/synctest the time is the bubble's, and the machine never sleeps.
type clock struct {
	base   time.Time
	slept  func() time.Duration // how long the machine has been suspended since it booted, never too small
	before time.Duration        // what slept said at base
	asleep atomic.Int64         // what it has grown by since
	asked  atomic.Int64         // when that was found out
}

func newClock(slept func() time.Duration) *clock {
	return &clock{base: time.Now(), slept: slept, before: least(slept)}
}

// now returns the time exactly.
func (c *clock) now() time.Duration {
	awake := time.Since(c.base)
	asleep := c.slept() - c.before
	if asleep >= time.Millisecond { // below that it is the noise of reading two clocks
		asleep = least(c.slept) - c.before
	}
	if asleep < time.Millisecond {
		asleep = 0
	}
	// Many look at once: they share a cache line as long as nobody writes to it.
	if c.asleep.Load() != int64(asleep) {
		c.asleep.Store(int64(asleep))
	}
	if awake-time.Duration(c.asked.Load()) > 100*time.Microsecond {
		c.asked.Store(int64(awake))
	}
	return awake + asleep
}

// recent returns the time, or a little less: it may miss a suspension that began within the last millisecond awake. For whoever decides
// by it, that is the same as a suspension in the millisecond after.
func (c *clock) recent() time.Duration {
	awake := time.Since(c.base)
	if awake-time.Duration(c.asked.Load()) > time.Millisecond {
		return c.now()
	}
	return awake + time.Duration(c.asleep.Load())
}

// least reads a few times: a thread that loses its processor between two clocks reads too much, never too little.
func least(read func() time.Duration) time.Duration {
	d := read()
	for range 3 {
		d = min(d, read())
	}
	return d
}
