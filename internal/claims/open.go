package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// How soon a store that could not be reached is asked again: the pauses double.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Open opens a store, and tries again while it cannot be reached: it may be starting, or electing a leader. Like
// every call it ends with ctx, and after Patience.
func Open(ctx context.Context, url string, patience time.Duration) (d driver.Driver, err error) {
	err = reach(ctx, patience, func(ctx context.Context) (err error) {
		d, err = driver.Open(ctx, url)
		return err
	})
	return d, err
}

// reach asks a store something, and again while it cannot be reached, until ctx ends, or Patience.
func reach(ctx context.Context, patience time.Duration, ask func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error // of the last try that was not cut short
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := ask(bounded)
		over := bounded.Err() != nil
		if err == nil || !over && !driver.IsUnreachable(err) {
			return err
		}
		if !over || last == nil {
			last = err
		}
		if over || !wait(bounded, pause) {
			return notReached(ctx, patience, last)
		}
	}
}

// wait reports whether a time went by before ctx ended.
func wait(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notReached says why a store did not answer in time.
func notReached(ctx context.Context, patience time.Duration, last error) error {
	switch {
	case ctx.Err() == nil:
		return driver.Unreachable(fmt.Errorf("tried for %v: %w", patience, tryError(last)))
	case driver.IsUnreachable(last):
		return fmt.Errorf("%w (%w)", context.Cause(ctx), last)
	}
	return last
}

// tryError returns the error of a try. If it says no more than that the time was over, it says that the store does
// not answer.
func tryError(err error) error {
	if late := context.DeadlineExceeded; errors.Is(err, late) && err.Error() == late.Error() {
		return protocol.ErrSilent
	}
	return err
}
