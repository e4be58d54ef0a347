package claims

import (
	"sync/atomic"
	"time"
)

// A clock measures the age of its keeper, including the time that the machine slept. Go's monotonic clock stands still while
// a machine is suspended (golang/go#24595), but a lease in the store does not.
//
// The wall clock decides nothing, but shows when to ask the kernel, which takes ten times as long as reading the clock. When
// the machine wakes, the kernel moves the wall clock on by the length of the sleep. While the distance between the wall
// clock and the monotonic clock stays the same, the machine has not slept, unless somebody set the wall clock back by just
// as much in the same millisecond; after that millisecond the clock asks the kernel anyway. Under testing/synctest the time
// is the bubble's, and the machine never sleeps.
type clock struct {
	base   time.Time
	wall   int64                 // the wall clock's time at base
	moved  func() time.Duration  // how far the wall clock has moved ahead of the monotonic clock; nil: read it
	slept  func() time.Duration  // how long the machine has slept since it booted, never too little
	before time.Duration         // what slept said at base
	sleep  atomic.Pointer[sleep] // the last finding
	asked  atomic.Int64          // the time awake at the last finding
}

// A sleep is a finding about the machine's sleep. It never changes.
type sleep struct {
	total time.Duration // since base
	ahead time.Duration // the wall clock's lead over the monotonic clock, right before the kernel was asked
}

// init starts the clock. A test may fake the kernel and the wall clock.
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

// noise is the largest error in the difference of two clocks, which are read one after the other.
const noise = time.Millisecond

// now returns the time exactly.
func (c *clock) now() time.Duration {
	now := time.Now()
	awake := now.Sub(c.base)
	ahead := time.Duration(now.UnixNano()-c.wall) - awake // inline, not in a function: this runs before each write
	if c.moved != nil {
		ahead = c.moved()
	}
	known := c.sleep.Load()
	if same(ahead, known.ahead, noise) && awake-time.Duration(c.asked.Load()) < noise {
		return awake + known.total
	}
	return awake + c.askKernel(ahead, awake)
}

// askKernel asks the kernel how long the machine has slept. ahead is the wall clock's lead just before: the next reading
// finds a sleep that begins in between.
func (c *clock) askKernel(ahead, awake time.Duration) time.Duration {
	known := c.sleep.Load()
	total := c.slept() - c.before
	if total-known.total >= noise {
		total = least(c.slept) - c.before
	}
	if same(total, known.total, noise) {
		total = known.total
	}
	// Many goroutines read at once: they share a cache line as long as nobody writes to it.
	if total != known.total || !same(ahead, known.ahead, noise/2) {
		c.sleep.CompareAndSwap(known, &sleep{total, ahead}) // another goroutine's finding is as good
	}
	if awake-time.Duration(c.asked.Load()) > noise/10 {
		c.asked.Store(int64(awake))
	}
	return total
}

// same reports whether two readings differ by less than noise.
func same(a, b, noise time.Duration) bool { return a-b < noise && b-a < noise }

// recent returns the time, or a little less: it may miss a suspension that began within the last millisecond awake. For the
// caller's decision, that is the same as a suspension in the next millisecond.
func (c *clock) recent() time.Duration {
	awake := time.Since(c.base)
	if awake-time.Duration(c.asked.Load()) > noise {
		return c.now()
	}
	return awake + c.asleep()
}

// at returns the moment of a time on the clock, if the machine does not sleep until then.
func (c *clock) at(t time.Duration) time.Time { return c.base.Add(t - c.asleep()) }

// asleep returns the known length of the machine's sleep.
func (c *clock) asleep() time.Duration { return c.sleep.Load().total }

// least returns the least of a few readings: a thread that loses its processor between two clocks reads too much, never too
// little.
func least(read func() time.Duration) time.Duration {
	d := read()
	for range 3 {
		d = min(d, read())
	}
	return d
}
