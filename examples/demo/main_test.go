//go:build unix

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// binary is the program, as users get it.
var binary string

func TestMain(m *testing.M) {
	demotest.HearSignals(syscall.SIGINT, syscall.SIGTERM)
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "stile-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "demo")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// A user runs demos, in a home of their own.
type user struct {
	t         *testing.T
	home, url string // an empty url means a file of the demo
}

func newUser(t *testing.T) *user { return &user{t: t, home: t.TempDir()} }

// at makes the user keep locks in a store.
func (u *user) at(url string) *user {
	u.url = url
	return u
}

// A process is a running demo.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer // whole when it has ended
	done           chan struct{}
}

func (u *user) start(args ...string) *process { return u.startWith(nil, args...) }

// startWith starts a demo with a stdout of its own, if it is not nil.
func (u *user) startWith(stdout io.Writer, args ...string) *process {
	u.t.Helper()
	p := &process{t: u.t, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "TMPDIR=" + u.home}
	if u.url != "" {
		p.cmd.Env = append(p.cmd.Env, demo.URLVariable+"="+u.url)
	}
	p.cmd.Dir, p.cmd.Stderr, p.cmd.SysProcAttr = u.home, &p.stderr, &syscall.SysProcAttr{Setpgid: true}
	if p.cmd.Stdout = stdout; stdout == nil {
		p.cmd.Stdout = &p.stdout
	}
	if err := p.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its status says it
		close(p.done)
	}()
	u.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // unless it has ended
		<-p.done
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit status, as a shell has it.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("%v has not ended after two minutes", p.cmd.Args)
	}
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// A result is the outcome of a call.
type result struct {
	code     int
	out, err string
}

// run runs the program to its end.
func (u *user) run(args ...string) result {
	u.t.Helper()
	p := u.start(args...)
	code := p.wait()
	return result{code, p.stdout.String(), p.stderr.String()}
}

// demo runs a demo to its end, which has to be with status 0, and to leave no file behind.
func (u *user) demo(args ...string) string {
	u.t.Helper()
	var r result
	demotest.OnceStill(u.t, func() { r = u.run(args...) })
	if r.code != 0 {
		u.t.Fatalf("demo %q: status %d, %s", args, r.code, r.err)
	}
	u.wantNothingLeft()
	return r.out
}

func (u *user) wantNothingLeft() {
	u.t.Helper()
	if left, err := filepath.Glob(filepath.Join(u.home, "stile-demo-*")); err != nil || len(left) > 0 {
		u.t.Errorf("left behind: %v, %v", left, err)
	}
}

// names returns the names in the store that begin so.
func (u *user) names(prefix string) (names []string) {
	u.t.Helper()
	c, err := stile.Open(u.t.Context(), u.url, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.Close()
	queues, err := c.List(u.t.Context(), prefix)
	if err != nil {
		u.t.Fatal(err)
	}
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}

// stopping starts a demo, and returns it while a holder of a lock is stopped.
func (u *user) stopping(name string, args ...string) (p *process, pids []int) {
	u.t.Helper()
	p = u.start(append([]string{name}, args...)...)
	servertest.Until(u.t, "a process is stopped while it holds", func() bool {
		var stopped int
		pids, stopped = demotest.Children(u.t, p.cmd.Process.Pid)
		return stopped != 0 && len(u.names("demo/"+name+"/")) > 0
	})
	return p, pids
}

// wantGone wants processes gone, soon.
func wantGone(t *testing.T, pids []int) {
	t.Helper()
	servertest.Until(t, "no process is left", func() bool { return demotest.Living(pids) == nil })
}

// wantHalf wants a demo that did not come to its end to say so in one line with these texts, and its processes gone.
func (p *process) wantHalf(pids []int, texts ...string) {
	p.t.Helper()
	code := p.wait()
	for _, want := range texts {
		if !strings.Contains(p.stderr.String(), want) {
			p.t.Errorf("no %q in %s", want, &p.stderr)
		}
	}
	if code != exit.Store || strings.Count(p.stderr.String(), "\n") != 1 {
		p.t.Errorf("status %d, %s; want %d and one line", code, &p.stderr, exit.Store)
	}
	if left := demotest.Living(pids); left != nil {
		p.t.Errorf("processes %v are left", left)
	}
}

// wantTexts wants a demo to print these texts.
func wantTexts(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// endings are the signals that a demo is ended with, and the statuses that follow.
var endings = map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGKILL: 137}

// wantEnded ends a demo by a signal, which has to be quiet and to leave no process behind.
func (p *process) wantEnded(by syscall.Signal, pids []int) {
	p.t.Helper()
	p.signal(by)
	if got, want := p.wait(), cmp.Or(endings[by], -1); got != want || p.stderr.Len() > 0 {
		p.t.Errorf("status %d, %q; want %d and nothing", got, &p.stderr, want)
	}
	wantGone(p.t, pids)
}

// A reader that goes away in the middle leaves nothing behind.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"payment", "--quick", "--processes", "2"}, {"leader", "--quick"}} {
		u := newUser(t)
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := u.startWith(write, args...)
		if err := errors.Join(read.Close(), write.Close()); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != exit.Output || !strings.HasPrefix(p.stderr.String(), "demo: the output cannot be written: ") {
			t.Errorf("%q: status %d, %s; want status %d", args, code, &p.stderr, exit.Output)
		}
		u.wantNothingLeft()
	}
}
