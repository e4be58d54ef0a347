// Package guard is the second process of stile run, and the parent of CMD. The guard does one thing: it kills CMD's process
// group with SIGKILL when CMD's time is over, or when stile is gone. So the group is gone before the lease ends, even if
// stile was stopped, hangs, or was killed with SIGKILL.
//
// As CMD's parent, the guard knows the group from its first moment. The kernel also kills CMD when the guard dies. The guard
// talks with stile over two pipes that CMD does not inherit, and holds no lock and no URL. It is in a process group of its
// own, so a signal to stile's group, or to CMD's, does not reach it.
//
// The package imports few others, so that package early can call [Main] before the libraries of the stores are initialized.
//
// Of the other packages of the command it may import none.
package guard

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/ending"
)

// Arg is the only argument of a program that must be the guard.
const Arg = "__guard"

// The descriptors of the guard's pipes.
const (
	ordersFD = 3
	newsFD   = 4
)

// A guard has the state of the process.
type guard struct {
	out    *os.File
	main   chan func() // functions for Main to call, on its thread
	state  state
	until  time.Duration // when to kill the group, on this process's clock; 0 before the first order
	pid    int           // CMD and its group, once it runs
	secret string        // a file to remove at the end
}

// A state is the guard's progress with CMD. An order to run CMD is obeyed at most once, and not when CMD's time is over.
//
//	waits ── Run in time ──► runs ── CMD ends ──► leaves ── its group is empty ──► over
//	  │                        └───────── CMD ends, and was alone in its group ───► over
//	  └── Run too late, or CMD cannot be executed ────────────────────────────────► over
type state int

const (
	waits  state = iota // for the order to run CMD
	runs                // CMD runs
	leaves              // CMD has ended, and its group has members
	over                // there is nothing to kill, and never will be
)

// Main is the process. Its thread must be the one that lives as long as the process does: CMD dies with the thread that
// started it.
func Main() {
	// CMD gets the default action for signals that are caught here, and ignores the signals that stile was started to ignore.
	// For each signal Go asks a thread of its own and waits, which also wakes this thread unless another goroutine waits. So
	// the threads of stile run switch 240 times, and otherwise 300 times (perf stat), which takes 5 % longer.
	caught, children := make(chan struct{}), make(chan os.Signal, 1)
	go func() {
		all := append(slices.Clone(PassedOn), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
		signal.Notify(make(chan os.Signal, 1), ending.Caught(all)...)
		signal.Notify(children, syscall.SIGCHLD)
		close(caught)
	}()
	for _, fd := range []int{ordersFD, newsFD} {
		syscall.CloseOnExec(fd)
	}
	adoptOrphans()
	boottime.ID()                           // read now, since stile would wait for it later
	_ = syscall.SetNonblock(ordersFD, true) // so that it does not occupy a thread
	orders := Orders(os.NewFile(ordersFD, "orders"))
	g := &guard{out: os.NewFile(newsFD, "news"), main: make(chan func())}
	<-caught
	g.tell(&News{Ready: true})
	// The rest is not bound to this thread: otherwise another thread would wake this one for each event. Together with the
	// measures in newChild and dismiss, that makes stile run take 15.8 ms instead of 17.1, beside 13.2 for the libraries with a
	// row (medians of 100 interleaved rounds, on a busy machine), and the threads switch 255 times instead of 354 (perf stat).
	go func() {
		defer close(g.main)
		g.watch(orders, children)
	}()
	for f := range g.main {
		f()
	}
	if g.secret != "" {
		_ = os.Remove(g.secret) // stile also tries this when CMD has ended
	}
}

// onMain calls f on the thread of Main.
func (g *guard) onMain(f func()) {
	done := make(chan struct{})
	g.main <- func() {
		f()
		close(done)
	}
	<-done
}

// watch serves stile until stile and CMD's group are gone.
func (g *guard) watch(orders <-chan Order, children <-chan os.Signal) {
	end, err := NewAlarm()
	if err != nil {
		g.tell(&News{Errno: errnoOf(err)})
		return
	}
	defer end.Close()
	look := time.NewTicker(GroupPoll)
	look.Stop()
	for g.state != over || orders != nil {
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil // stile is gone, or needs the guard no more
				if g.state == waits {
					return
				}
				g.signal(syscall.SIGKILL)
			}
			if o.Until != 0 {
				g.until = o.killTime()
				end.Set(g.until)
			}
			g.obey(&o)
		case <-end.C:
			if g.late() && g.alive() { // before CMD runs, start checks this
				g.signal(syscall.SIGKILL)
				g.tell(&News{Late: true})
			}
		case <-children:
		case <-look.C:
		}
		if g.reap(); g.state == leaves {
			look.Reset(GroupPoll)
		}
	}
}

// killTime returns when to kill the group, on this process's clock.
func (o *Order) killTime() time.Duration {
	if boottime.ID() == "" {
		return boottime.Now() + o.Left
	}
	return o.Until
}

// obey carries out an order.
func (g *guard) obey(o *Order) {
	switch {
	case o.Signal != 0:
		g.signal(o.Signal)
	case o.Run != nil && g.state == waits:
		g.start(o.Run)
	}
}

// late reports whether CMD's time is over.
func (g *guard) late() bool { return g.until != 0 && boottime.Now() >= g.until }

// alive reports whether there is something to kill.
func (g *guard) alive() bool { return g.state == runs || g.state == leaves }

// start executes CMD in a process group of its own, unless it is too late. The alarm may have gone off before the
// order came: stile was stopped, or the machine slept. Once CMD runs, watch notices the alarm.
func (g *guard) start(p *Program) {
	g.secret = p.Secret
	if g.late() {
		g.state = over
		g.tell(&News{Late: true})
		return
	}
	var err error
	g.onMain(func() {
		g.pid, err = syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{
			Env: p.Env, Files: []uintptr{0, 1, 2}, Sys: ofGroup(p.Terminal),
		})
	})
	if err != nil {
		g.state = over
		g.tell(&News{Errno: errnoOf(err)})
		return
	}
	g.state = runs
	g.tell(&News{PID: g.pid})
}

// errnoOf returns the reason why CMD cannot be executed.
func errnoOf(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return syscall.EINVAL // for an argument with a zero byte
}

// signal sends a signal to the group. Only the guard does so, unless it is too late: the number of a group that is gone may
// soon belong to another group, and the guard knows whether it is gone.
func (g *guard) signal(s syscall.Signal) {
	if g.alive() {
		_ = syscall.Kill(-g.pid, s) // it fails if the group is gone
	}
}

// reap notes how CMD has ended, and reaps the other members of the group whose parents have ended: the group exists until
// the last of them is reaped.
func (g *guard) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		switch {
		case pid != g.pid || !g.alive():
		case ws.Stopped():
			g.tell(&News{Stopped: true, Status: ws})
		default:
			if g.state = leaves; !Alive(g.pid) {
				g.state = over
			}
			g.tell(&News{Exited: true, Status: ws, Gone: g.state == over})
		}
	}
	if g.state == leaves && !Alive(g.pid) {
		g.state = over
		g.tell(&News{Gone: true})
	}
}

// tell never blocks for long: stile reads all the time, and if stile is stopped, the pipe has room for all news. It fails if
// stile is dead, and then the orders end too.
func (g *guard) tell(n *News) { _, _ = g.out.Write(n.encode()) }
