package guard

import (
	"errors"
	"syscall"
	"time"
)

// GroupPoll is how often a process group is polled until it is gone: the kernel does not report it.
const GroupPoll = 5 * time.Millisecond

// Alive reports whether a process group has members, including ended ones that have not been reaped.
func Alive(pgid int) bool { return !errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }
