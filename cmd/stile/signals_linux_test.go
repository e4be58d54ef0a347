package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Each command that waits for a store ends with the status of the signal, and SIGQUIT does not have the Go runtime print
// what its goroutines do.
func TestSignalWhileOpening(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"run a -- true", "elect a -- true", "elect a --watch", "cron CRONTAB", "lock a", "ls", "show a", "watch a", "top", "wait a",
		"break a --yes --reason test", "doctor", "bench", "prove", "migrate", "serve --listen localhost:0", "demo tickets",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			u := newAccount(t)
			url := "redis://" + silent.Addr().String()
			if args == "migrate" {
				url = "postgres://" + silent.Addr().String() + "/db"
			}
			u.at(url)
			p := u.start(strings.Fields(strings.Replace(args, "CRONTAB", u.crontab("@every 1s poll -- true"), 1))...)
			connection, err := silent.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			p.signal(syscall.SIGQUIT)
			if got, want := p.wait(), 128+int(syscall.SIGQUIT); got != want || strings.Contains(p.stderr.String(), "goroutine") {
				t.Errorf("status %d, want %d: %s", got, want, p.stderr)
			}
		})
	}
}

// A question that nobody answers ends with a signal.
func TestSignalWhileAsking(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("lock", "a")
	s := u.onTerminal(binary, "break", "a", "--reason", "test")
	s.see("[y/N] ")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.done
	if got, want := s.cmd.ProcessState.ExitCode(), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("status %d, want %d", got, want)
	}
	if claims := u.show("a").Claims; len(claims) != 1 {
		t.Errorf("the queue is %+v; want the claim there", claims)
	}
}

// A file of jobs that is not read to its end, as a pipe or on a network that is gone, keeps no signal away.
func TestCronFileHangs(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	pipe := u.fifo("pipe")
	reads := func() *os.File {
		t.Helper()
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until it is being read
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for _, args := range [][]string{{"cron", pipe}, {"cron", pipe, "--check"}} {
		p := u.start(args...)
		w := reads()
		p.signal(syscall.SIGQUIT)
		if got, want := p.wait(), 128+int(syscall.SIGQUIT); got != want || strings.Contains(p.stderr.String(), "goroutine") {
			t.Errorf("%v: status %d, want %d: %s", args, got, want, p.stderr)
		}
		w.Close()
	}
	file := u.crontab("@every 1h poll -- true")
	m := u.cron(file)
	if err := os.Rename(pipe, file); err != nil {
		t.Fatal(err)
	}
	pipe = file
	m.signal(syscall.SIGHUP)
	defer reads().Close()
	next := filepath.Join(u.home, "next")
	if err := os.WriteFile(next, []byte("@every 1h poll -- true\n@every 1h other -- true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
	m.signal(syscall.SIGHUP)
	m.said("jobs=2") // another file in its place is read
	m.ends(syscall.SIGTERM)
}

// adoptsVariable names a program that is executed in the place of the tests, once the process is the parent of orphans.
const adoptsVariable = "STILE_TEST_ADOPTS"

func init() {
	if path := os.Getenv(adoptsVariable); path != "" {
		panic(beOfOrphans(path))
	}
}

// beOfOrphans executes a program in the place of this one, with the arguments of this one. It becomes the parent of its
// descendants whose parents end, as the first process of a container does.
func beOfOrphans(path string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
}

// What the commands of stile cron leave running is taken away when it has ended, if that falls to stile.
func TestCronReapsOrphans(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := u.crontab("@every 1s poll -- setsid sh -c 'echo $$; exec sleep 0.2' >>" + u.home + "/left 2>&1 &")
	cmd := exec.Command(program, "cron", file)
	cmd.Env, cmd.Dir = slices.Concat(u.env, []string{adoptsVariable + "=" + binary}), u.home
	m := machine{u.launch(cmd)}
	m.said("jobs wait for their ticks")
	left := func() (pids []int) {
		text, err := os.ReadFile(u.home + "/left")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
	until(t, "three runs have left a process, and none of these is there, not even ended", func() bool {
		pids := left()
		for _, pid := range pids[:max(0, len(pids)-1)] {
			if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return false
			}
		}
		return len(pids) > 3
	})
	m.said("run done")
	m.ends(syscall.SIGTERM)
	if strings.Contains(m.stderr.String(), "ERROR") {
		t.Errorf("a run did not end well: %s", m.stderr)
	}
}
