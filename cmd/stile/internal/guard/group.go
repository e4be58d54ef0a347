package guard

import (
	"errors"
	"syscall"
	"time"
)

// GroupPoll is how often a process group is looked at until it is gone: the kernel does not tell.
const GroupPoll = 5 * time.Millisecond

// Alive reports whether a process group has members, those included that have ended and not been reaped.
func Alive(pgid int) bool { return !errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }
