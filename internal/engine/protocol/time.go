package protocol

import "time"

// A Time is a moment of the client's clock, which also runs while the machine sleeps.
type Time = time.Duration

// Never is later than every moment.
const Never = Time(1<<63 - 1)

// After returns t plus d, or Never if that would exceed Never.
func After(t Time, d time.Duration) Time {
	if d > Never-max(t, 0) {
		return Never
	}
	return t + d
}

// Slack is how early a renewal may come to join others: a tenth of the time between renewals, so that there are at most ten
// batches in that time. With half of it, 1,000 held leases took 33.2 ms of processor time a second, and 27.9 with this: make
// bench-before ONLY='^renewing$' STORES=memory.
func Slack(ttl time.Duration) time.Duration { return ttl / 30 }
