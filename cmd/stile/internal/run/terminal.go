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

// A terminal is the terminal that stile was started from. Its foreground is a group of processes: the shell's; or stile's,
// which also has the other commands of a pipeline; or CMD's. Nil means that there is no terminal.
//
//	kept ──CMD asks for it, or nobody else of stile's group can: lend──> lent
//	lent ──another of stile's group asks for it, or CMD is stopped or ends: takeBack──> kept
//	kept ──the rest of stile's group is stopped: heed──> stops ──CMD is stopped too: suspend, or SIGCONT: goOn──> kept
//
// If a process reads from a terminal, or changes its modes, while its group is not in the foreground, the kernel stops the
// whole group. That is how a group asks for the foreground. stile takes a lent foreground back from any group of CMD's
// session. It never lends or takes the foreground while the shell has it.
type terminal struct {
	fd     int
	group  int // stile's own group
	state  terminalState
	shared bool        // another process of stile's group has asked: CMD gets the foreground only if it asks too
	caught []os.Signal // the caught ones of the signals that stop stile's group
	asks   chan os.Signal
}

type terminalState int

const (
	terminalKept  terminalState = iota // stile's group or the shell has the foreground
	terminalLent                       // CMD has the foreground
	terminalStops                      // kept, and not lent any more: CMD must stop
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

// catch makes stile handle the signals that stop its group, from now on: package os/signal cannot undo this. Until the first
// loan SIGTTIN and SIGTTOU stop stile as usual: another stile that runs this one as its CMD reads the signal from its
// status.
func (t *terminal) catch(list ...syscall.Signal) {
	for _, s := range ending.Caught(list) {
		if !slices.Contains(t.caught, s) {
			t.caught = append(t.caught, s)
		}
	}
	if len(t.caught) > 0 { // an empty list would mean all signals
		signal.Notify(t.asks, t.caught...)
	}
}

// asked returns the channel of the signals that would have stopped stile.
func (t *terminal) asked() <-chan os.Signal {
	if t == nil {
		return nil
	}
	return t.asks
}

func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // it fails once the terminal is gone
}

// holder returns the group in the foreground; 0 if the terminal is gone.
func (t *terminal) holder() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// unasked reports whether CMD gets the foreground without asking: the terminal is its stdin, stile is in the foreground, and
// no other process of stile's group could ask. The processes that started stile do not count: they wait for it.
func (t *terminal) unasked() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == t.group && !t.shared && !proc.HasOthers(t.group)
}

// begin reports whether CMD gets the foreground from its first moment.
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

// lend gives CMD the foreground, and reports whether CMD has it. It does not take the foreground from another group.
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

// takeBack makes stile's group the foreground again, if CMD's group had replaced it.
func (t *terminal) takeBack() {
	if t.state != terminalLent {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // which would stop a process that does this from the background
	t.give(t.group)
	signal.Reset(syscall.SIGTTOU)
	t.catch()
	t.state = terminalKept
}

// share gives stile's group the foreground, and lets the group go on, with any process that was stopped for asking
// meanwhile.
func (t *terminal) share() {
	t.takeBack()
	_ = syscall.Kill(0, syscall.SIGCONT) // to a group that this process is in
}

// giveBack gives the terminal back to the group that had it before CMD.
func (t *terminal) giveBack() {
	if t == nil {
		return
	}
	if t.state == terminalLent {
		t.share()
	}
	_ = unix.Close(t.fd) // a terminal has nothing to write back
}

// heed handles a signal that stops stile's group. If another process of the group asked for the foreground while CMD has it,
// that process gets it. Otherwise the signal is for the whole pipeline, and CMD is a part of that: stile stops when CMD has
// stopped. CMD may already be stopped because it asks for the foreground; it gets none now, since that would continue it.
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

// stopped reacts when a signal has stopped CMD. If CMD asked for the foreground while stile has it, CMD gets it. Otherwise
// stile stops with its group, so that the shell gets the terminal. If that lasts longer than the lease, the guard ends CMD
// meanwhile. In the group of the session's leader no shell would continue them, so stile continues CMD.
func (t *terminal) stopped(by syscall.Signal, c *Child) {
	if t == nil {
		return
	}
	asks := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	if !asks {
		by = syscall.SIGTSTP // SIGSTOP would also stop processes that must never stop
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
// Stile does not stop in the call: another thread may take the signal, and this one runs on for a moment. So goOn does the
// rest of the work, when stile gets SIGCONT.
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
		t.catch()                 // the signals that suspend ignores
		if t.holder() != c.PGID { // if not, nobody has taken it from CMD
			t.state = terminalKept
		}
		if t.unasked() {
			t.lend(c)
		}
	}
	c.signal(syscall.SIGCONT)
}
