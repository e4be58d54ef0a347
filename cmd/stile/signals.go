package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

var (
	// ending are the signals that end the waiting for a lock.
	ending = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

	// passedOn are those that CMD's group gets when stile does.
	passedOn = append(slices.Clone(ending), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH)
)

// caught returns the signals that can be caught without undoing that they are ignored, as nohup and a shell's "&" have it.
func caught(list []syscall.Signal) (signals []os.Signal) {
	for _, s := range list {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// untilSignal returns a context that ends with cause [interrupted] when one of the signals comes that end a process. The
// others are taken and dropped. Calling stop gives the signals back, and waits until none is being looked at.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if s := s.(syscall.Signal); slices.Contains(ending, s) {
					cancel(&interrupted{s})
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

// listen has the signals delivered to a channel.
func listen(list []syscall.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 16)
	if signals := caught(list); len(signals) > 0 { // none would mean all
		signal.Notify(c, signals...)
	}
	return c
}
