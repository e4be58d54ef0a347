package quorum

import (
	"math/rand/v2"
	"time"
)

const (
	spread        = time.Millisecond // within which those who wait for a name try, when it is free
	spreads       = 6                // how often that doubles where many do
	manyContended = 1024             // names, until they are forgotten
)

// spread returns for how long a claim is to leave a name to others that wait for it, at random.
func (d *Driver) spread(name string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return rand.N(spread << d.contention[name])
}

// missedLocked notes that a claim came too late, or others are in the way.
func (d *Driver) missedLocked(name string) {
	if len(d.contention) >= manyContended {
		clear(d.contention)
	}
	d.contention[name] = min(d.contention[name]+1, spreads)
}

// alone reports whether no more claims have missed a name than one Enter has in the tries before this one.
func (d *Driver) alone(name string, try int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contention[name] < try
}

// caughtLocked notes that a claim came to hold.
func (d *Driver) caughtLocked(name string) {
	if n := d.contention[name]; n > 1 {
		d.contention[name] = n - 1
	} else {
		delete(d.contention, name)
	}
}
