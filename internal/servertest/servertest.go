//go:build unix

// Package servertest starts real servers for tests: on a free loopback port, in a temporary folder, owned by process
// id, ready when it returns, and gone when the test ends or the test's process dies.
//
// A server that is not installed is a failed test, and the failure names the package that has it.
package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A TB is the part of [testing.TB] that starting a server needs, so that benchmarks and programs can start one too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Cleanup(f func())
	TempDir() string
}

// A Process describes how to run a server.
type Process struct {
	Binary  string                   // found in PATH
	Package string                   // Debian package that has the binary
	Ports   int                      // free ports that it needs; 0 means 1
	Files   func(s *Server) error    // writes what the server reads, before each start; nil means nothing
	Args    func(s *Server) []string // its arguments
	Ready   func(s *Server) error    // asked until the answer is nil

	Credential *syscall.Credential // the user of the process and owner of its folder; nil means the test's own user
}

// A Server is a running process. It is stopped when the test ends.
type Server struct {
	Addr  string // 127.0.0.1 and the first port
	Ports []int
	Dir   string // its own folder, kept through a restart

	t    TB
	spec Process

	mu     sync.Mutex // guards the fields below
	proc   *os.Process
	exited chan struct{} // closed when proc has ended
	serves *atomic.Bool  // from when it is ready until it is to end
	more   []string      // arguments since it was restarted with them
}

const (
	readyWithin = time.Minute
	stopWithin  = 5 * time.Second
	askEvery    = 5 * time.Millisecond
	attempts    = 5 // another process may take a port between the look for a free one and its use
)

// Start runs a server and returns when it is ready. Otherwise the test fails.
func Start(t TB, p Process) *Server {
	t.Helper()
	if _, err := exec.LookPath(p.Binary); err != nil {
		if filepath.IsAbs(p.Binary) {
			t.Fatalf("%v", err)
		}
		t.Fatalf("%s is not installed: apt-get install %s", p.Binary, p.Package)
	}
	s := &Server{t: t, spec: p}
	var err error
	if s.Dir, err = folder(t, p.Credential); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Kill)
	for range attempts {
		if s.Ports, err = freePorts(max(1, p.Ports)); err != nil {
			break
		}
		s.Addr = fmt.Sprintf("127.0.0.1:%d", s.Ports[0])
		if err = s.run(); err == nil {
			return s
		}
		s.Kill()
	}
	t.Fatalf("%s does not start: %v\n%s", p.Binary, err, s.Log())
	return nil
}

// folder makes a folder that is gone when the test ends. One with an owner is where that user can reach it.
func folder(t TB, owner *syscall.Credential) (string, error) {
	if owner == nil {
		return t.TempDir(), nil
	}
	dir, err := os.MkdirTemp("", "servertest-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir, os.Chown(dir, int(owner.Uid), int(owner.Gid))
}

// run starts the process on the ports that s has and waits until it is ready.
func (s *Server) run() error {
	if s.spec.Files != nil {
		if err := s.spec.Files(s); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(s.spec.Binary, append(s.spec.Args(s), s.more...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.Dir, out, out, attributes()
	cmd.SysProcAttr.Credential = s.spec.Credential

	started, exited, serves := make(chan error, 1), make(chan struct{}), &atomic.Bool{}
	go func() {
		// The kernel kills the child when the thread that started it ends, so that thread lives as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			if serves.Load() { // otherwise the tests would only report that nobody answers
				s.t.Logf("%s ended by itself: %v\n%s", s.spec.Binary, cmd.ProcessState, s.Log())
			}
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	s.mu.Lock()
	s.proc, s.exited, s.serves = cmd.Process, exited, serves
	s.mu.Unlock()

	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	for {
		err := s.spec.Ready(s)
		if err == nil {
			serves.Store(true)
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("it ended at once: %v", cmd.ProcessState)
		case <-limit.C:
			return fmt.Errorf("it is not ready after %v: %w", readyWithin, err)
		case <-ask.C:
		}
	}
}

// Pid returns the process id of the running server.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Pid
}

// Stop asks the server to end, with SIGTERM, and kills it if it does not end soon. A second Stop is harmless.
func (s *Server) Stop() {
	s.endWith(syscall.SIGTERM)
}

// Kill ends the server with SIGKILL. A second Kill is harmless.
func (s *Server) Kill() {
	s.endWith(syscall.SIGKILL)
}

func (s *Server) endWith(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	s.serves.Store(false)
	s.proc.Signal(sig)
	s.proc.Signal(syscall.SIGCONT)
	select {
	case <-s.exited:
	case <-time.After(stopWithin):
		s.proc.Kill()
		<-s.exited
	}
	s.proc = nil
}

// Pause stops the server with SIGSTOP: connections stay open, and nothing is answered when it returns.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	pid := s.Pid()
	Until(s.t, s.spec.Binary+" has stopped", func() bool { return stopped(pid) })
}

// Resume continues a paused server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.t.Fatalf("%s is not running", s.spec.Binary)
	}
	if err := s.proc.Signal(sig); err != nil {
		s.t.Fatalf("%s: %v: %v", s.spec.Binary, sig, err)
	}
}

// Restart runs the server again on the same port and in the same folder, after stopping it if it runs.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.run(); err != nil {
		s.t.Fatalf("%s does not start again: %v\n%s", s.spec.Binary, err, s.Log())
	}
}

// RestartWith runs the server again as [Server.Restart] does, with more arguments, now and at each later restart.
func (s *Server) RestartWith(args ...string) {
	s.t.Helper()
	s.Stop()
	s.more = append(s.more, args...)
	s.Restart()
}

// Log returns the end of what the server has printed.
func (s *Server) Log() string {
	const most = 4096
	text, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Until waits for a condition, and fails the test after a long time.
func Until(t TB, what string, holds func() bool) {
	t.Helper()
	Within(t, readyWithin, what, holds)
}

// Within is Until with its own limit, for attempts that grow rarer.
func Within(t TB, most time.Duration, what string, holds func() bool) {
	t.Helper()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	limit := time.NewTimer(most)
	defer limit.Stop()
	for !holds() {
		select {
		case <-ask.C:
		case <-limit.C:
			t.Fatalf("after %v not yet: %s", most, what)
		}
	}
}

// built returns the path of a server that make servers builds.
func built(t TB, name string) string {
	t.Helper()
	binary := filepath.Join(root(t), "bin", name)
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("bin/%s is missing: make servers builds it", name)
	}
	return binary
}

// root returns the folder of the repository, in which the working folder is.
func root(t TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, e := os.Stat(filepath.Join(dir, "go.work")); e == nil {
			return dir
		}
	}
	t.Fatalf("the working folder is in no clone of the repository: %v", err)
	return ""
}

// folderOf returns the folder of a server that a variable of the environment names, "" if it names none. One that is not
// there fails the test: no other server stands in for it.
func folderOf(t TB, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return ""
	}
	if info, err := os.Stat(filepath.Join(dir, "bin")); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		t.Fatalf("%s must be the absolute path of a server's folder, with its programs in bin: %s is not", variable, dir)
	}
	return dir
}

// freePorts returns free, different ports that no other test gets while this process lives: a server that starts later, or
// restarts, would otherwise find another test's server in its place. They are below the ports that a system gives to
// outgoing connections, one of which could take the port of a restarting server.
func freePorts(n int) ([]int, error) {
	const lowest, highest, tries = 10_000, 32_000, 100
	var (
		ports []int
		err   error
	)
	for range tries + n {
		port := lowest + rand.IntN(highest-lowest)
		if e := reserve(port); e != nil {
			err = e
			continue
		}
		l, e := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if e != nil {
			err = e
			continue
		}
		l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("too few ports are free: %w", err)
}

// Port returns a free port, for what a server listens on beside the ports that [Start] gives it. No other test is given that
// port while this process lives, and no outgoing connection has it.
func Port(t TB) int {
	t.Helper()
	ports, err := freePorts(1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return ports[0]
}

// reserve takes a port for this process, by a lock on a file that lasts as long as the process.
func reserve(port int) error {
	dir := filepath.Join(os.TempDir(), "stile-test-ports-"+strconv.Itoa(os.Getuid())) // another user may not write to ours
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fd, err := syscall.Open(filepath.Join(dir, strconv.Itoa(port)), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("port %d is another test's: %w", port, err), syscall.Close(fd))
	}
	return nil // the descriptor stays open
}
