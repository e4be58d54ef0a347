package main

import (
	"errors"
	"syscall"
	"time"
)

// groupPoll is how often a process group is looked at until it is gone: the kernel does not tell.
const groupPoll = 5 * time.Millisecond

// alive reports whether a process group has members, those included that have ended and not been reaped.
func alive(pgid int) bool { return !errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }
