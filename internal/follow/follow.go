// Package follow looks again whenever a store tells that a queue may have changed.
package follow

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// Every is how often a store is asked that cannot tell of changes, or that could not be asked a moment ago.
const Every = 250 * time.Millisecond

// Name calls look, now and whenever the queue of a name may have changed, until it fails or returns false; then the
// error is nil. It also fails if changes can no longer be told, and, with the error silence, if the store has not begun to
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
	silent := time.NewTimer(patience)
	defer silent.Stop()
	for {
		select {
		case <-told:
			silent.Stop() // it stands: from now on quiet means that nothing changes
		case err := <-ended:
			return err
		case <-silent.C:
			return silence
		}
		if more, err := look(ctx); err != nil || !more {
			return err
		}
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
