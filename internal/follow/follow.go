// Package follow looks again at a queue whenever the store reports a possible change.
package follow

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// Every is the pause between two looks at a store that cannot report changes, or that could not be asked a moment ago.
const Every = 250 * time.Millisecond

// quietFor is how many times patience a silent watch lasts before another look.
const quietFor = 6

// Name calls look now, whenever the queue of a name may have changed, and after a while without changes, until look fails or
// returns false; then the error is nil. Name also fails if the store can no longer report changes, and with the error
// silence if it does not begin to report within patience.
func Name(
	ctx context.Context, d driver.Driver, name string, patience time.Duration, silence error,
	look func(context.Context) (more bool, err error),
) error {
	ctx, cancel := context.WithCancel(ctx)
	told, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- watch(ctx, d, name, func() {
			select {
			case told <- struct{}{}:
			default: // the pending look will see this change too
			}
		})
	}()
	defer func() {
		cancel()
		for range ended { //nolint:revive // waits for the goroutine
		}
	}()
	stands := false
	quiet := time.NewTimer(patience)
	defer quiet.Stop()
	for {
		select {
		case <-told:
			stands = true
		case err := <-ended:
			return err
		case <-quiet.C:
			if !stands {
				return silence
			}
			// Nothing changed for a while, or the store no longer reports: the look shows which.
		}
		if more, err := look(ctx); err != nil || !more {
			return err
		}
		quiet.Reset(quietFor * patience)
	}
}

// watch is [driver.Watcher.Watch], or polls a store without one.
func watch(ctx context.Context, d driver.Driver, name string, changed func()) error {
	if w, ok := d.(driver.Watcher); ok {
		return w.Watch(ctx, name, changed)
	}
	for {
		changed()
		if err := claims.Pause(ctx, Every); err != nil {
			return err
		}
	}
}
