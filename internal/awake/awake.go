// Package awake bounds the waits of tests on a machine that may stand still, and has a lane for tests whose subject is time.
package awake

import "time"

// step is the time between two counts.
const step = 10 * time.Millisecond

// For returns a channel that is closed once this process could run for a length of time. It counts short steps, each with
// its nominal length, however late it ends: so time in which the machine stands still, or has no core for the process, does
// not count. A long time has longer steps, since many tests wait at once.
func For(length time.Duration) <-chan struct{} {
	over := make(chan struct{})
	left, step := length, max(step, length/200)
	var next func()
	next = func() {
		if left <= 0 {
			close(over)
			return
		}
		left -= step
		time.AfterFunc(step, next)
	}
	next()
	return over
}

// Over reports whether a channel of [For] is closed.
func Over(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}
