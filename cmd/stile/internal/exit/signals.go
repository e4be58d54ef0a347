package exit

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
)

// UntilSignal returns a context that ends with cause [Interrupted] when one of the signals comes that end a process. The
// others are taken and dropped. Calling stop gives the signals back, and waits until none is being looked at.
func UntilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if s := s.(syscall.Signal); slices.Contains(guard.Ending, s) {
					cancel(&Interrupted{s})
				}
			case <-over:
				return
			}
		}
	}()
	return ctx, func() {
		close(over)
		<-done
	}
}

// Interruptible calls f with a context that ends when a signal comes that ends a process. Then that is the error, also if f
// had what it wanted already: the signal is taken, and nobody else hears of it.
func Interruptible(ctx context.Context, signals <-chan os.Signal, f func(context.Context) error) error {
	ctx, stop := UntilSignal(ctx, signals)
	err := f(ctx)
	stop()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// Listen has the signals delivered to a channel.
func Listen(list []syscall.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 16)
	if signals := guard.Caught(list); len(signals) > 0 { // none would mean all
		signal.Notify(c, signals...)
	}
	return c
}

// OutliveReaders lets a write to stdout or stderr fail, and not end this process, when their reader is gone: a job
// must not be killed since nobody reads the log.
func OutliveReaders() { Listen([]syscall.Signal{syscall.SIGPIPE}) }
