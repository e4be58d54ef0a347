package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the one on stdin, if stile is in its foreground: CMD's group takes its place there while CMD runs. A nil
// terminal is none.
type terminal struct {
	group int // stile's own
}

// foreground returns the terminal on stdin, or nil if stdin is none or another group has it.
func foreground() *terminal {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return nil
	}
	return &terminal{group: group}
}

func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, group) // it fails once the terminal is gone
}

// takeBack makes stile's group the foreground again.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // which stops who does this from the background
	t.give(t.group)
	signal.Reset(syscall.SIGTTOU)
}

// suspend stops stile, as the terminal stopped CMD, for the shell to have the terminal; and goes on with CMD when the
// shell goes on with stile. If that takes longer than the lease lasts, the guard ends CMD meanwhile.
func (t *terminal) suspend(c *child) {
	if t == nil {
		return
	}
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGSTOP)
	if group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP); err == nil && group == t.group {
		t.give(c.pgid)
	}
	c.signal(syscall.SIGCONT)
}

// closed reports whether a file of stdin, stdout and stderr was closed when stile was started. The Go runtime opens
// /dev/null in its place, for reading and writing, so that no other file gets the number; a shell's >/dev/null is open for
// writing only.
func closed(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return true
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	null, err := os.Stat(os.DevNull)
	info, e := f.Stat()
	return err == nil && e == nil && os.SameFile(null, info)
}
