package run

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/child"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
)

// A Child is CMD and its process group, as stile sees them: through the guard.
type Child struct {
	guard int               // its process
	in    *os.File          // for orders. Only this process has this end of the pipe: when it closes, even by death, CMD ends
	news  <-chan guard.News // closed when the guard has ended
	PGID  int               // 0 before CMD runs
	out   *os.File          // the pipe of the news
	alarm *guard.Alarm      // for waits for news
}

// NewChild starts the guard. That takes a moment, so it is best done before the lock is held. Without a stdin, CMD's is
// empty.
//
// It does not use package os, which would first start another process to find out whether descriptors can refer to
// processes. The guard needs no such descriptor: its number stays its own until close.
func NewChild(stdin *os.File) (*Child, error) {
	ordersOut, ordersIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersOut.Close()
	newsOut, newsIn, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ordersIn.Close())
	}
	defer newsIn.Close()
	alarm, err := guard.NewAlarm()
	if err != nil {
		return nil, errors.Join(err, ordersIn.Close(), newsOut.Close())
	}
	pid, err := startGuard(stdin, ordersOut, newsIn)
	if err != nil {
		alarm.Close()
		return nil, errors.Join(fmt.Errorf("the guard does not start: %w", err), ordersIn.Close(), newsOut.Close())
	}
	return &Child{guard: pid, in: ordersIn, news: guard.ReadNews(newsOut), out: newsOut, alarm: alarm}, nil
}

func startGuard(stdin, orders, news *os.File) (pid int, err error) {
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return 0, err
		}
		defer stdin.Close()
	}
	program := child.Self()
	guards.mu.Lock()
	defer guards.mu.Unlock()
	pid, err = syscall.ForkExec(program, []string{os.Args[0], guard.Arg}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1"},
		Files: []uintptr{stdin.Fd(), os.Stdout.Fd(), os.Stderr.Fd(), orders.Fd(), news.Fd()}, // the first three are for CMD
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, &os.PathError{Op: "fork/exec", Path: program, Err: err}
	}
	guards.own[pid] = true
	return pid, nil
}

// dismiss lets the guard end while the lock is released and the store closed: CMD's group is gone.
func (c *Child) dismiss() { c.in.Close() }

// Close ends the guard, which kills the rest of CMD's group.
func (c *Child) Close() {
	c.alarm.Close()
	c.in.Close()
	for range c.news {
	}
	c.out.Close()
	for {
		if _, err := syscall.Wait4(c.guard, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	guards.mu.Lock()
	defer guards.mu.Unlock()
	delete(guards.own, c.guard)
}

// kill kills the guard. It fails if the guard has ended. It must not be called after close.
func (c *Child) kill() { _ = syscall.Kill(c.guard, syscall.SIGKILL) }

// errGuard is the error of a CMD whose guard has ended.
var errGuard = exit.With(exit.Signal+int(syscall.SIGKILL),
	errors.New("the guard that CMD runs under has ended: CMD was killed"))

// errLate says that the guard did not execute CMD, since CMD's time was over.
var errLate = errors.New("the time until which CMD may run was over before CMD began")

// run executes CMD. The error is errLate if it is too late, and a [*exit.Status] if CMD cannot be executed. If the guard
// does not answer in time, run kills the guard, and CMD dies with it.
func (c *Child) run(p *guard.Program, until time.Duration) error {
	// If the guard has ended, it does not read, but its news end too.
	(&guard.Order{Run: p}).Send(c.in)
	c.alarm.Set(until)
	for {
		select {
		case n, ok := <-c.news:
			switch {
			case !ok:
				return errGuard
			case n.PID != 0:
				c.PGID = n.PID
				return nil
			case n.Errno != 0:
				return notExecuted(p.Path, n.Errno)
			case n.Late: // for a group that was killed, the PID comes first
				return errLate
			}
		case <-c.alarm.C:
			c.kill()
		}
	}
}

// allow sets the time until which CMD may run.
func (c *Child) allow(until time.Duration) {
	(&guard.Order{Until: until, Left: until - boottime.Now()}).Send(c.in)
}

// signal sends a signal to the whole group. A stopped process handles a signal that ends it only when it goes on, so signal
// also continues the group.
func (c *Child) signal(s syscall.Signal) {
	(&guard.Order{Signal: s}).Send(c.in)
	if slices.Contains(ending.Signals, s) {
		(&guard.Order{Signal: syscall.SIGCONT}).Send(c.in)
	}
}

// killAll kills the group, and the guard, which has failed to kill the group.
func (c *Child) killAll() {
	if c.PGID != 0 { // 0 would mean stile's own group
		_ = syscall.Kill(-c.PGID, syscall.SIGKILL) // it fails if the group is gone
	}
	c.kill()
}
