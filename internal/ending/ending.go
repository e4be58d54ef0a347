//go:build unix

// Package ending has the signals that end a program, and waits for them.
package ending

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Signals are the signals that end the wait for a lock.
var Signals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ Signal syscall.Signal }

func (i *Interrupted) Error() string { return "ended by a signal: " + i.Signal.String() }

// Until returns a context that ends with the cause [Interrupted] at the first signal that ends a process. Other signals are
// dropped. stop gives the signals back, and returns once no signal is being handled.
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

// Interruptible calls f with a context that ends at a signal that ends a process. Then the error is the signal's, even if f
// has succeeded: Interruptible has taken the signal, and nobody else gets it.
func Interruptible(ctx context.Context, signals <-chan os.Signal, f func(context.Context) error) error {
	ctx, stop := Until(ctx, signals)
	err := f(ctx)
	stop()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// Listen delivers signals to a channel.
func Listen(list []syscall.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 16)
	if signals := Caught(list); len(signals) > 0 { // no signals would mean all
		signal.Notify(c, signals...)
	}
	return c
}

// Caught returns the signals that can be caught. Ignored signals stay ignored, as under nohup and a shell's "&", except
// SIGCONT: a process that ignores it continues all the same.
func Caught(list []syscall.Signal) (signals []os.Signal) {
	for _, s := range list {
		if s == syscall.SIGCONT || !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// OutliveReaders makes a write to stdout or stderr fail when its reader is gone, instead of ending this process: a job must
// not die because nobody reads the log.
func OutliveReaders() { Listen([]syscall.Signal{syscall.SIGPIPE}) }
