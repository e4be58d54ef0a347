package claims

import (
	"sync/atomic"
	"time"
)

// A clock reads how long its keeper has existed, the time that the machine slept included. Go's monotonic clock
// stands still while a machine is suspended (golang/go#24595), and a lease in the store does not.
//
// The wall clock decides nothing, but it shows when to ask the kernel, which takes ten times as long as to read the
// clock: when the machine wakes, the kernel moves the wall clock on by the length of the sleep. As long as the wall
// clock keeps its distance from the monotonic clock, the machine has not slept, unless somebody set it back by just
// as much in the same millisecond; after that the kernel is asked anyway. Under testing/synctest the time is the
// bubble's, and the machine never sleeps.
type clock struct {
	base   time.Time
	wall   int64                 // the wall clock's time at base
	moved  func() time.Duration  // how far the wall clock has moved on beside the monotonic clock; nil means to read it
	slept  func() time.Duration  // how long the machine has been suspended since it booted, never too small
	before time.Duration         // what slept said at base
	sleep  atomic.Pointer[sleep] // the last finding
	asked  atomic.Int64          // when that was, awake
}

// A sleep is a clock's knowledge of its machine's sleep. It never changes.
type sleep struct {
	total time.Duration // since base
	ahead time.Duration // by which the wall clock was before the monotonic clock, right before that was asked
}

// init starts the clock. With a slept of their own, tests are the kernel, and move the wall clock too.
func (c *clock) init(fake func() time.Duration) {
	c.base, c.slept = time.Now(), slept
	c.wall = c.base.UnixNano()
	var ahead time.Duration
	if fake != nil {
		c.slept, c.moved, ahead = fake, fake, fake()
	}
	c.sleep.Store(&sleep{ahead: ahead})
	c.before = least(c.slept)
}

// noise is the largest error in the difference of two clocks, since they are read one after the other.
const noise = time.Millisecond

// now returns the time exactly.
func (c *clock) now() time.Duration {
	now := time.Now()
	awake := now.Sub(c.base)
	ahead := time.Duration(now.UnixNano()-c.wall) - awake // here, not in a function: callers look before each write
	if c.moved != nil {
		ahead = c.moved()
	}
	known := c.sleep.Load()
	if same(ahead, known.ahead, noise) && awake-time.Duration(c.asked.Load()) < noise {
		return awake + known.total
	}
	return awake + c.askKernel(ahead, awake)
}

// askKernel asks the kernel for how long the machine has slept. The wall clock was so far ahead before: a sleep that begins in
// between is seen by the next look.
func (c *clock) askKernel(ahead, awake time.Duration) time.Duration {
	known := c.sleep.Load()
	total := c.slept() - c.before
	if total-known.total >= noise {
		total = least(c.slept) - c.before
	}
	if same(total, known.total, noise) {
		total = known.total
	}
	// Many look at once: they share a cache line as long as nobody writes to it.
	if total != known.total || !same(ahead, known.ahead, noise/2) {
		c.sleep.CompareAndSwap(known, &sleep{total, ahead}) // if another was quicker, its finding is as good
	}
	if awake-time.Duration(c.asked.Load()) > noise/10 {
		c.asked.Store(int64(awake))
	}
	return total
}

// same reports whether two readings differ by no more than noise.
func same(a, b, noise time.Duration) bool { return a-b < noise && b-a < noise }

// recent returns the time, or a little less: it may miss a suspension that began within the last millisecond awake.
// For a caller that decides by it, that is the same as a suspension in the millisecond after.
func (c *clock) recent() time.Duration {
	awake := time.Since(c.base)
	if awake-time.Duration(c.asked.Load()) > noise {
		return c.now()
	}
	return awake + c.asleep()
}

// at returns the moment at which the clock says a time, if the machine does not sleep until then.
func (c *clock) at(t time.Duration) time.Time { return c.base.Add(t - c.asleep()) }

// asleep is how long the machine has slept, as far as is known.
func (c *clock) asleep() time.Duration { return c.sleep.Load().total }

// least reads a few times: a thread that loses its processor between two clocks reads too much, never too little.
func least(read func() time.Duration) time.Duration {
	d := read()
	for range 3 {
		d = min(d, read())
	}
	return d
}
