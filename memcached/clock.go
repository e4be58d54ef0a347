package memcached

import (
	"sync"
	"time"
)

// A clock is what is known of the server's clock, which shows whole seconds and is read off answers. It knows what it
// shows at least: a client's clock that stood still, or runs slow, makes that less, never more. Nothing expires by it;
// it serves to ask for leases that are long enough, and to trust them for no longer than they last.
type clock struct {
	mu    sync.Mutex
	shown int64
	at    time.Time // a moment after the server's clock showed that
}

// driftParts is how much faster than the server's clock a client's may run: one part in so many.
const driftParts = 200

// see notes what the server's clock showed in an answer that has just come.
func (c *clock) see(now int64) {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || now >= c.leastAt(at) {
		c.shown, c.at = now, at
	}
}

// least returns what the server's clock shows now, or less.
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
