package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes the process the parent of its descendants whose own parents end.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it they are the init process's, which reaps them too
}

// ofGroup puts a child into a process group of its own, in the foreground of the terminal on stdin if it has one, and
// has it die with the thread that starts it.
func ofGroup(terminal bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: terminal, Ctty: 0, Pdeathsig: syscall.SIGKILL}
}

// ofParent has a child die with the thread that starts it.
func ofParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
