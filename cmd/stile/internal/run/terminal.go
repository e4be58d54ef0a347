package run

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/cmd/stile/internal/proc"
	"github.com/stilelock/stile/internal/ending"
)

// A terminal is the one that stile was started from. Its foreground is a group of processes: the shell's, or stile's, in
// which are the other commands of a pipeline too, or CMD's. A nil terminal is none.
//
//	kept ──CMD asks for it, or nobody else of stile's group can: lend──> lent
//	lent ──another of stile's group asks for it, or CMD is stopped or ends: takeBack──> kept
//	kept ──the rest of stile's group is stopped: heed──> stops ──CMD is stopped too: suspend, or SIGCONT: goOn──> kept
//
// Whoever reads from a terminal in whose foreground it is not, or changes its modes, is stopped, with its whole group. That
// is how a group asks. What is lent is taken back from whichever group of CMD's session has it then. What the shell has is
// not stile's to lend or to take.
type terminal struct {
	fd     int
	group  int // stile's own
	state  terminalState
	shared bool        // another of stile's group has asked: CMD gets it only if it asks too
	caught []os.Signal // of those that stop stile's group
	asks   chan os.Signal
}

type terminalState int

const (
	terminalKept  terminalState = iota // by stile's group, or by the shell
	terminalLent                       // to CMD
	terminalStops                      // kept, and no more to be lent: CMD is to be stopped
)

// newTerminal returns the terminal that stile was started from, or nil if there is none.
func newTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, group: unix.Getpgrp(), asks: make(chan os.Signal, 16)}
	t.catch(syscall.SIGTSTP)
	return t
}

// catch redirects the signals that stop stile's group to stile's own handling, from now on: package os/signal cannot
// undo it. SIGTTIN and SIGTTOU stop stile until the first loan, since a waiter reads from the status of a process
// which signal stopped it: a stile whose CMD stile is.
func (t *terminal) catch(list ...syscall.Signal) {
	for _, s := range ending.Caught(list) {
		if !slices.Contains(t.caught, s) {
			t.caught = append(t.caught, s)
		}
	}
	if len(t.caught) > 0 { // none would mean all
		signal.Notify(t.asks, t.caught...)
	}
}

// asked is the channel of the signals that would have stopped stile.
func (t *terminal) asked() <-chan os.Signal {
	if t == nil {
		return nil
	}
	return t.asks
}

func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // it fails once the terminal is gone
}

// holder returns the group in the foreground; 0 if there is none any more.
func (t *terminal) holder() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// unasked reports whether CMD gets the foreground without asking: it has the terminal as its stdin, stile is in the
// foreground, and nobody else is there to ask. Those that started stile are there too, and wait for it.
func (t *terminal) unasked() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == t.group && !t.shared && !proc.HasOthers(t.group)
}

// begin reports whether CMD is to have the foreground from its first moment.
func (t *terminal) begin() bool {
	if t == nil || !t.unasked() {
		return false
	}
	t.lent()
	return true
}

func (t *terminal) lent() {
	t.state = terminalLent
	t.catch(syscall.SIGTTIN, syscall.SIGTTOU)
}

// lend gives CMD the foreground, and reports whether CMD has it: what another group has is not lent.
func (t *terminal) lend(c *Child) bool {
	switch t.holder() {
	case c.PGID:
	case t.group:
		t.give(c.PGID)
	default:
		return false
	}
	t.lent()
	return true
}

// takeBack makes stile's group the foreground again, if CMD's took its place.
func (t *terminal) takeBack() {
	if t.state != terminalLent {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // which stops who does this from the background
	t.give(t.group)
	signal.Reset(syscall.SIGTTOU)
	t.catch()
	t.state = terminalKept
}

// share lets stile's group have the foreground, and go on. Who asked for it meanwhile, unheard, goes on too.
func (t *terminal) share() {
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGCONT) // to a group that this process is in
}

// giveBack gives the terminal back to those that had it before CMD.
func (t *terminal) giveBack() {
	if t == nil {
		return
	}
	if t.state == terminalLent {
		t.share()
	}
	_ = unix.Close(t.fd) // of a terminal, which has nothing to write back
}

// heed does what a signal that stops stile's group is for. If another of the group asked for the foreground, which CMD has,
// it gets it. Otherwise the signal is for the whole pipeline, of which CMD is a part: stile stops when CMD has. CMD may be
// stopped already since it asks for the foreground, and to be lent that would have it go on.
func (t *terminal) heed(s syscall.Signal, c *Child) {
	if s != syscall.SIGTSTP && (t.state == terminalLent || t.holder() == t.group) {
		t.shared = true
		t.share()
		return
	}
	t.takeBack()
	t.state = terminalStops
	c.signal(s)
}

// stopped does what is to be done when a signal has stopped CMD. If CMD asked for the foreground, which stile has, it gets
// it. Otherwise stile stops with its group, for the shell to have the terminal. If that takes longer than the lease lasts,
// the guard ends CMD meanwhile. In the group of the session's leader there is no shell that would have them go on, so CMD
// goes on.
func (t *terminal) stopped(by syscall.Signal, c *Child) {
	if t == nil {
		return
	}
	asks := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	if !asks {
		by = syscall.SIGTSTP // SIGSTOP would stop also who is never to be stopped
	}
	session, err := unix.Getsid(0)
	switch {
	case asks && t.state != terminalStops && t.lend(c):
		c.signal(syscall.SIGCONT)
	case err != nil || session == t.group || signal.Ignored(by):
		if !asks {
			c.signal(syscall.SIGCONT)
		}
	default:
		t.suspend(by)
	}
}

// suspend stops stile's group.
//
// Stile does not stop in the call: another thread may be the one that takes the signal, and this one runs on for a moment.
// So what is to be done when stile goes on is done when it hears that it does, in goOn.
func (t *terminal) suspend(by syscall.Signal) {
	t.takeBack()
	t.state = terminalKept
	if slices.Contains(t.caught, os.Signal(by)) {
		signal.Ignore(by)
		defer func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }() // to itself, which cannot fail
	}
	_ = syscall.Kill(0, by) // to a group that this process is in
}

// goOn lets CMD continue, in the foreground if the shell lets stile continue there.
func (t *terminal) goOn(c *Child) {
	if t != nil {
		t.catch()                 // what suspend has it ignore
		if t.holder() != c.PGID { // else nobody has taken it from CMD
			t.state = terminalKept
		}
		if t.unasked() {
			t.lend(c)
		}
	}
	c.signal(syscall.SIGCONT)
}
