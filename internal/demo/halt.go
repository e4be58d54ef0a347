//go:build unix

package demo

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/stilelock/stile"
)

const (
	haltTries = 4
	haltLook  = 250 * time.Millisecond // bound of the first try; each further try takes twice as long
	haltPause = 50 * time.Millisecond  // lets the process finish its write
	haltMost  = time.Second            // within which the signal must have stopped the process
)

// Halt stops a process that waits for an order. Other goroutines of the process renew leases. If the process stops in the
// middle of a write to the store, such as an SQLite file or a transaction, nobody else can write there. So Halt tries the
// lock from outside. If the store does not answer, Halt lets the process run for a moment and stops it again.
//
//	running ──SIGSTOP──> stopped ──the store answers others──> halted
//	   ^──────────────── SIGCONT ──────it does not─────┘
//
// After haltTries tries Halt gives up: the store is slow for another reason. If lock is nil, Halt only stops the process.
func (a *Process) Halt(ctx context.Context, lock *stile.Lock) error {
	look := haltLook
	for try := range haltTries {
		if try > 0 {
			if err := a.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
				return err
			}
			time.Sleep(haltPause)
			look *= 2
		}
		if err := a.stop(ctx); err != nil || lock == nil || answers(ctx, lock, look) {
			return err
		}
	}
	return context.Cause(ctx)
}

// stop returns when the process has stopped or ended, or after haltMost. The signal itself returns at once.
func (a *Process) stop(ctx context.Context) error {
	if err := a.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < haltMost && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		var state syscall.WaitStatus
		pid, err := syscall.Wait4(a.Cmd.Process.Pid, &state, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if pid != 0 && !errors.Is(err, syscall.EINTR) {
			return nil
		}
	}
	return context.Cause(ctx)
}

// answers reports whether the store lets others write in the queue of the lock within most.
func answers(ctx context.Context, lock *stile.Lock, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	lease, err := lock.TryLock(ctx)
	if err == nil {
		err = lease.Unlock()
	}
	return err == nil || errors.Is(err, stile.ErrHeld)
}
