// Package follow looks again whenever a store reports that a queue may have changed.
package follow

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// Every is how often a store is asked that cannot tell of changes, or that could not be asked a moment ago.
const Every = 250 * time.Millisecond

// quietFor is after how many times its patience a watch that hears nothing looks again.
const quietFor = 6

// Name calls look, now and whenever the queue of a name may have changed, and after a while without changes, until it fails or
// returns false; then the error is nil. It also fails if changes can no longer be told, and, with the error silence, if the store has not begun to
// tell them within patience.
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
			default: // the look that is due will see this change too
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
			// Nothing has changed for a while, or the store reports nothing any more: the look shows which.
		}
		if more, err := look(ctx); err != nil || !more {
			return err
		}
		quiet.Reset(quietFor * patience)
	}
}

// watch is [driver.Watcher.Watch], or asks again and again a store that cannot.
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
