package guard

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

var (
	// Ending are the signals that end the waiting for a lock.
	Ending = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

	// PassedOn are those that CMD's group gets when stile does.
	PassedOn = append(slices.Clone(Ending), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH)
)

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
