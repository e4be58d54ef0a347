package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// The pauses before an unreachable store is asked again: they double.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Open opens a store, and tries again while the store is unreachable: it may be starting, or electing a leader. It ends with
// ctx, or after patience.
func Open(ctx context.Context, url string, patience time.Duration) (d driver.Driver, err error) {
	err = reach(ctx, patience, func(ctx context.Context) (err error) {
		d, err = driver.Open(ctx, url)
		return err
	})
	return d, err
}

// reach asks a store, and again while it is unreachable, until ctx ends or patience is over.
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

// wait waits for a time, and returns false if ctx ends first.
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

// notReached returns the error of a store that did not answer in time.
func notReached(ctx context.Context, patience time.Duration, last error) error {
	switch {
	case ctx.Err() == nil:
		return driver.Unreachable(fmt.Errorf("tried for %v: %w", patience, tryError(last)))
	case driver.IsUnreachable(last):
		return fmt.Errorf("%w (%w)", context.Cause(ctx), last)
	}
	return last
}

// tryError returns the error of a try. A mere timeout becomes the error of a silent store.
func tryError(err error) error {
	if late := context.DeadlineExceeded; errors.Is(err, late) && err.Error() == late.Error() {
		return protocol.ErrSilent
	}
	return err
}
