package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the one on stdin, if stile is in its foreground: CMD's group takes its place there while CMD runs. A nil
// terminal is none.
//
//	lent ──CMD is stopped: suspend──> own ──SIGCONT in the foreground: goOn──> lent
//	lent, own ──SIGCONT while another group has it: goOn──> left
//	left ──SIGCONT in the foreground: goOn──> lent
//
// What is lent is taken back, from whichever group of CMD's session has it then. What was left to the shell, with which stile goes
// on in the background, is not stile's to take.
type terminal struct {
	group int // stile's own
	state terminalState
}

type terminalState int

const (
	terminalLent terminalState = iota // to CMD, from its first moment
	terminalOwn                       // stile's, which is about to stop
	terminalLeft                      // the shell's
)

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

// holder returns the group in the foreground; 0 if there is none any more.
func (t *terminal) holder() int {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// takeBack makes stile's group the foreground again, if CMD's took its place.
func (t *terminal) takeBack() {
	if t == nil || t.state != terminalLent {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // which stops who does this from the background
	t.give(t.group)
	signal.Reset(syscall.SIGTTOU)
	t.state = terminalOwn
}

// suspend stops stile, as the terminal stopped CMD, for the shell to have the terminal. If that takes longer than the lease
// lasts, the guard ends CMD meanwhile.
//
// Stile does not stop in the call: another thread may be the one that takes the signal, and this one runs on for a moment.
// So what is to be done when stile goes on is done when it hears that it does, in goOn.
func (t *terminal) suspend() {
	if t == nil {
		return
	}
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGSTOP)
}

// goOn has CMD go on, in the foreground if the shell has stile go on there.
func (t *terminal) goOn(c *child) {
	if t != nil {
		switch t.holder() {
		case t.group:
			t.give(c.pgid)
			t.state = terminalLent
		case c.pgid: // nobody has taken it from CMD
		default:
			t.state = terminalLeft
		}
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
