package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/inspect"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/servertest"
)

// binary is the command, as users get it.
var binary string

func TestMain(m *testing.M) {
	demotest.HearSignals(guard.PassedOn...)
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "stile-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "stile")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// An account is somebody with a home of their own, and so with a default store of their own.
type account struct {
	t    *testing.T
	home string
	env  []string
	size []unix.Winsize // of terminals, if one is set

	as     *syscall.Credential // nil for who runs the test
	binary string              // the command, where that user can run it; empty for where it was built
}

func newAccount(t *testing.T) *account {
	t.Helper()
	home := t.TempDir()
	return &account{t: t, home: home, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"),
		"XDG_RUNTIME_DIR=" + filepath.Join(home, "run"), "TMPDIR=" + home,
	}}
}

// at makes the user keep locks in another store.
func (u *account) at(url string) *account {
	u.env = append(u.env, store.URLVariable+"="+url)
	return u
}

// A process is a running stile.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *bufio.Reader
	stderr *lockedBuffer
	done   chan struct{} // closed when it has ended
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs stile in the background. Its stdin is open until it is closed.
func (u *account) start(args ...string) *process {
	u.t.Helper()
	cmd := exec.Command(cmp.Or(u.binary, binary), args...)
	cmd.Env, cmd.Dir = u.env, u.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: u.as}
	return u.launch(cmd)
}

func (u *account) launch(cmd *exec.Cmd) *process {
	u.t.Helper()
	p := &process{t: u.t, cmd: cmd, stderr: &lockedBuffer{}, done: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		u.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr, p.out = w, p.stderr, bufio.NewReader(r)
	if cmd.Stdin == nil {
		if p.stdin, err = cmd.StdinPipe(); err != nil {
			u.t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	w.Close()
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	u.t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.done
		r.Close()
	})
	return p
}

// line reads one line that the process, or its CMD, printed.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("no line from %v: %v; it said: %s", p.cmd.Args, err, p.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// pid reads a line that is a process id.
func (p *process) pid() int {
	p.t.Helper()
	line := p.line()
	pid, err := strconv.Atoi(line)
	if err != nil {
		p.t.Fatalf("%q is not a process id", line)
	}
	return pid
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
		p.t.Fatalf("%v has not ended after two minutes; it said: %s", p.cmd.Args, p.stderr)
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

// run runs stile to its end.
func (u *account) run(args ...string) result {
	u.t.Helper()
	p := u.start(args...)
	p.stdin.Close()
	out, err := io.ReadAll(p.out)
	if err != nil {
		u.t.Fatal(err)
	}
	return result{p.wait(), string(out), p.stderr.String()}
}

// must is run that has to end with status 0.
func (u *account) must(args ...string) string {
	u.t.Helper()
	r := u.run(args...)
	if r.code != 0 {
		u.t.Fatalf("stile %q: status %d, %s", args, r.code, r.err)
	}
	return r.out
}

// demo runs the demonstration to its end, which has to be with status 0.
func (u *account) demo(args ...string) string {
	u.t.Helper()
	var r result
	demotest.OnceStill(u.t, func() { r = u.run(append([]string{"demo"}, args...)...) })
	if r.code != 0 {
		u.t.Fatalf("stile demo %q: status %d, %s", args, r.code, r.err)
	}
	return r.out
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	servertest.Until(t, what, holds)
}

// command is another program that the user runs.
func (u *account) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = u.env, u.home
	return cmd
}

// show returns the queue of a name.
func (u *account) show(name string) inspect.QueueView {
	u.t.Helper()
	var v inspect.QueueView
	text := u.must("show", name, "--json")
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		u.t.Fatalf("%v: %s", err, text)
	}
	return v
}
