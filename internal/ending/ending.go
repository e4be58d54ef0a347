//go:build unix

// Package ending is the signals that end a program, and how a program waits until one comes.
package ending

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Signals are those that end the waiting for a lock.
var Signals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ Signal syscall.Signal }

func (i *Interrupted) Error() string { return "ended by a signal: " + i.Signal.String() }

// Until returns a context that ends with cause [Interrupted] when one of the signals comes that end a process. The
// others are taken and dropped. Calling stop gives the signals back, and waits until none is being looked at.
func Until(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if s := s.(syscall.Signal); slices.Contains(Signals, s) {
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
	ctx, stop := Until(ctx, signals)
	err := f(ctx)
	stop()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// Listen delivers the signals to a channel.
func Listen(list []syscall.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 16)
	if signals := Caught(list); len(signals) > 0 { // none would mean all
		signal.Notify(c, signals...)
	}
	return c
}

// Caught returns the signals that can be caught without undoing that they are ignored, as nohup and a shell's "&" have it.
// SIGCONT always can: a process that ignores it goes on all the same.
func Caught(list []syscall.Signal) (signals []os.Signal) {
	for _, s := range list {
		if s == syscall.SIGCONT || !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// OutliveReaders makes a write to stdout or stderr fail when its reader is gone, without ending this process: a job must
// not be killed because nobody reads the log.
func OutliveReaders() { Listen([]syscall.Signal{syscall.SIGPIPE}) }
