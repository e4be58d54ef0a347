package protocol

import "time"

// A Time is one moment of the client's clock, which counts on while the machine sleeps.
type Time = time.Duration

// Never is a time that does not come.
const Never = Time(1<<63 - 1)

// After returns t and d more, or Never if that is too far off to be a time.
func After(t Time, d time.Duration) Time {
	if d > Never-max(t, 0) {
		return Never
	}
	return t + d
}
