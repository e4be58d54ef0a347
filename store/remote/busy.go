package remote

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

// The bounds of a pause that a service asks for.
const (
	leastPause = time.Second
	mostPause  = 30 * time.Second
)

// A busyError is the error of a request that a service has refused because it has too much to do. It was not passed on.
type busyError struct {
	error
	after time.Duration // when to ask again
}

func (e *busyError) Unwrap() error { return e.error }

// retryAfter returns for how long an answer asks its client to pause, by its Retry-After.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return leastPause
	}
	return min(max(time.Duration(seconds)*time.Second, leastPause), mostPause)
}

// pause waits until a busy service may be asked again, and up to half longer, so that not all clients ask at once. If the
// context ends before, pause waits almost until then and returns false: the caller returns the service's error while it is
// still the reason.
func (c *client) pause(ctx context.Context, after time.Duration) bool {
	after += rand.N(after / 2)
	whole := true
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		left -= min(left/8, mostEarly)
		whole, after = after <= left, min(after, left)
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return whole
	case <-ctx.Done():
	case <-c.life.Context().Done():
	}
	return false
}
