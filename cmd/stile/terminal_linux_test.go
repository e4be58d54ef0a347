package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A screen is a terminal with a process on it that leads its session.
type screen struct {
	t    *testing.T
	file *os.File
	keys io.Writer
	text *bufio.Reader
	cmd  *exec.Cmd
	done chan struct{}
}

// onTerminal runs a program on a terminal of its own, as a shell would run it.
func (u *account) onTerminal(name string, args ...string) *screen {
	u.t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		u.t.Fatal(err)
	}
	raw, err := main.SyscallConn()
	if err != nil {
		u.t.Fatal(err)
	}
	var number int
	if e := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); e != nil || err != nil {
		u.t.Fatal(e, err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		u.t.Fatal(err)
	}
	defer side.Close()
	for _, size := range u.size {
		if err := unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &size); err != nil {
			u.t.Fatal(err)
		}
	}
	s := &screen{t: u.t, file: main, keys: main, text: bufio.NewReader(main), cmd: u.command(name, args...), done: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = side, side, side
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.done)
	}()
	u.t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.done
		main.Close()
	})
	return s
}

// see reads until a text appears and returns the line from there on.
func (s *screen) see(text string) string {
	s.t.Helper()
	var seen strings.Builder
	if err := s.file.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	for {
		c, err := s.text.ReadByte()
		if err != nil {
			s.t.Fatalf("no %q on the screen, but %q: %v", text, &seen, err)
		}
		seen.WriteByte(c)
		if strings.HasSuffix(seen.String(), text) {
			return seen.String()
		}
	}
}

// press types a key until a text appears. A shell that is about to read when a signal comes hears of it at the next.
func (s *screen) press(key, text string) {
	s.t.Helper()
	seen, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(3 * time.Second)
		defer again.Stop()
		for {
			fmt.Fprint(s.keys, key)
			select {
			case <-again.C:
			case <-seen:
				return
			}
		}
	}()
	defer func() {
		close(seen)
		<-ended
	}()
	s.see(text)
}

func (s *screen) foreground() int {
	group, err := unix.IoctlGetInt(int(s.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		s.t.Fatal(err)
	}
	return group
}

// On a terminal CMD's group is in the foreground, gets its signals, and leaves it to stile at the end.
func TestTerminal(t *testing.T) {
	u := newAccount(t)
	s := u.onTerminal("sh", "-c", `"$0" run a -- sh -c 'echo pid $$.; trap "echo caught.; exit 6" INT; while read x; do echo got $x.; done'; echo status $?.; read y; echo shell $y.`, binary)
	s.see("pid ")
	pid, err := strconv.Atoi(strings.TrimSuffix(s.see("."), "."))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.foreground(); got != pid {
		t.Errorf("group %d is in the foreground, want CMD's, %d", got, pid)
	}
	fmt.Fprintln(s.keys, "hello")
	s.see("got hello.")
	s.press("\x03", "caught.")
	s.see("status 6.")
	if got, want := s.foreground(), s.cmd.Process.Pid; got != want {
		t.Errorf("group %d is in the foreground afterwards, want the shell's, %d", got, want)
	}
	fmt.Fprintln(s.keys, "again")
	s.see("shell again.")
}

// A CMD that is stopped from the terminal stops stile, for the shell to go on; and goes on with it, in the background too.
func TestTerminalStop(t *testing.T) {
	u := newAccount(t)
	s := u.onTerminal("bash", "--norc", "--noprofile", "-i")
	fmt.Fprintf(s.keys, "%s run a -- sh -c 'echo be''gun; read x; echo got $x.'\n", binary)
	s.see("begun")
	fmt.Fprint(s.keys, "\x1a")
	s.see("Stopped")
	// In the background it is stopped again, since it reads from the terminal, which is the shell's.
	fmt.Fprintln(s.keys, "bg; until jobs | grep -q Stopped; do sleep 0.01; done; echo she''ll; fg")
	s.see("shell")
	s.see(binary)
	fmt.Fprintln(s.keys, "more")
	s.see("got more.")
	fmt.Fprintln(s.keys, "echo status $?.")
	s.see("status 0.")
}

// A CMD that ends in the background leaves the shell its terminal.
func TestTerminalBackground(t *testing.T) {
	u := newAccount(t)
	end := filepath.Join(u.home, "end")
	if err := unix.Mkfifo(end, 0o600); err != nil {
		t.Fatal(err)
	}
	s := u.onTerminal("bash", "--norc", "--noprofile", "-i")
	fmt.Fprintf(s.keys, "%s run a -- sh -c 'echo be''gun; read x <%s'\n", binary, end)
	s.see("begun")
	fmt.Fprint(s.keys, "\x1a")
	s.see("Stopped")
	fmt.Fprintf(s.keys, "bg; echo >%s; wait; echo all ''done.\n", end)
	s.see("all done.")
	if got, want := s.foreground(), s.cmd.Process.Pid; got != want {
		t.Errorf("group %d is in the foreground, want the shell's, %d", got, want)
	}
	fmt.Fprintln(s.keys, "echo ali''ve.; exit")
	s.see("alive.")
}

// Of a CMD that has handed the terminal on to another group, as a shell does, it is taken back too when CMD is killed.
func TestTerminalHandedOn(t *testing.T) {
	u := newAccount(t)
	s := u.onTerminal("sh", "-c", `"$0" run a --max-hold 300ms --grace 50ms -- bash -c 'trap "" TERM; set -m; sleep 3; :'; read y; echo shell $y.`, binary)
	s.see("it was held for as long as --max-hold allows")
	if got, want := s.foreground(), s.cmd.Process.Pid; got != want {
		t.Errorf("group %d is in the foreground, want the shell's, %d", got, want)
	}
	fmt.Fprintln(s.keys, "again")
	s.see("shell again.")
}

func TestBreakAsks(t *testing.T) {
	u := newAccount(t)
	for _, tt := range []struct {
		answer string
		left   int
	}{{"n", 1}, {"", 1}, {"yes", 0}} {
		u.run("lock", "a", "--owner", "me", "--try")
		s := u.onTerminal(binary, "break", "a", "--reason", "test")
		if got := s.see("[y/N] "); !strings.Contains(got, "Remove the claim on a of me on ") {
			t.Errorf("it asked %q", got)
		}
		fmt.Fprintln(s.keys, tt.answer)
		<-s.done
		if got := len(u.show("a").Claims); got != tt.left {
			t.Errorf("%q: %d claims are left, want %d", tt.answer, got, tt.left)
		}
	}
}

// interactive runs an interactive bash on a terminal.
func (u *account) interactive() *screen {
	return u.onTerminal("bash", "--norc", "--noprofile", "-i")
}

// fifo makes a pipe with a name, from which nothing comes until somebody writes.
func (u *account) fifo(name string) string {
	u.t.Helper()
	path := filepath.Join(u.home, name)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// In a pipeline the other commands keep the terminal, as a pager must, and the lock is held all the same. Ctrl-C and Ctrl-Z
// reach all of the pipeline.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	end := u.fifo("end")
	const pager = `sh -c 'stty -icanon </dev/tty; read line; echo asks.; ` +
		`while read key </dev/tty; do echo got $line $key.; done'`
	s := u.interactive()
	fmt.Fprintf(s.keys, "%s run a -- sh -c 'echo one; read x <%s; echo $x >&2' | %s\n", binary, end, pager)
	s.see("asks.")
	fmt.Fprintln(s.keys, "two")
	s.see("got one two.")
	if claims := u.show("a").Claims; len(claims) != 1 || claims[0].State != "holds" {
		t.Errorf("the queue is %+v; want that stile holds", claims)
	}
	s.press("\x1a", "Stopped")
	fmt.Fprintln(s.keys, "jobs -r; echo none ''runs.; fg")
	if got := s.see("none runs."); strings.Contains(got, "Running") {
		t.Errorf("after Ctrl-Z a part of the pipeline runs: %q", got)
	}
	s.see("run a")
	fmt.Fprintln(s.keys, "three")
	s.see("got one three.")
	s.press("\x03", "bash-") // its prompt
	fmt.Fprintln(s.keys, "echo status $?.")
	s.see("status 130.")
	if claims := u.show("a").Claims; len(claims) != 0 {
		t.Errorf("the queue is %+v; want the lock free", claims)
	}
}

// A CMD in a pipeline gets the terminal when it reads from it or changes its modes, and the next of the pipeline after it,
// while CMD runs.
func TestTerminalPipelineAsks(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	first, end := u.fifo("first"), u.fifo("end")
	s := u.interactive()
	before := "sh -c 'stty -icanon </dev/tty; read z <" + first + "' |"
	const after = `| sh -c 'read line; echo asks.; read key </dev/tty; echo got $line $key.; cat'`
	for _, tt := range []struct{ name, before, cmd, after string }{
		{"reads", "", "read x; echo $x", after},
		{"changes the modes", "", "stty -echo; echo reads. >&2; read x; echo $x", after},
		{"at its end", "echo |", "read x </dev/tty; echo $x", after},
		{"in the middle", before, "read x </dev/tty; echo $x", after},
	} {
		cmd := fmt.Sprintf("sh -c 'echo be''gun. >&2; %s; read y <%s'", tt.cmd, end)
		fmt.Fprintf(s.keys, "%s %s run a -- %s %s; echo status $?.\n", tt.before, binary, cmd, tt.after)
		s.see("begun.")
		fmt.Fprintln(s.keys, "one")
		s.see("asks.")
		fmt.Fprintln(s.keys, "two")
		s.see("got one two.")
		for _, path := range []string{first, end} {
			if path == first && tt.before != before {
				continue
			}
			if err := os.WriteFile(path, []byte("\n"), 0); err != nil {
				t.Fatal(err)
			}
		}
		s.see("status 0.")
	}
}

// A CMD that asks for the terminal while the rest of the pipeline is being stopped is stopped with it.
func TestTerminalPipelineStops(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	gate, end := u.fifo("gate"), u.fifo("end")
	s := u.interactive()
	cmd := "trap \"echo hea''rd. >&2\" TSTP; exec 3<>" + gate + "; echo be''gun. >&2; " +
		"until read x <&3; do :; done; read y; echo got $y. >&2"
	fmt.Fprintf(s.keys, "%s run a -- sh -c '%s' | cat %s; echo status $?.\n", binary, cmd, end)
	s.see("begun.")
	fmt.Fprint(s.keys, "\x1a")
	s.see("heard.")
	if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	s.see("Stopped")
	s.see("status ")
	fmt.Fprintln(s.keys, "fg; echo status $?.")
	s.see("run a")
	fmt.Fprintln(s.keys, "more")
	s.see("got more.")
	if err := os.WriteFile(end, nil, 0); err != nil {
		t.Fatal(err)
	}
	s.see("status 0.")
}

// A CMD in the background that asks for the terminal stops stile too, and goes on in the foreground.
func TestTerminalFromBackground(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	s := u.interactive()
	const cmd = `sh -c 'trap "echo caught.; exit 6" INT; while read x; do echo got $x.; done'`
	fmt.Fprintf(s.keys, "%s run a -- %s &\n", binary, cmd)
	fmt.Fprintln(s.keys, "until jobs | grep -q Stopped; do sleep 0.01; done; echo sto''pped.; fg; echo status $?.")
	s.see("stopped.")
	s.see("run a")
	fmt.Fprintln(s.keys, "hello")
	s.see("got hello.")
	s.press("\x03", "caught.")
	s.see("status 6.")
}

// A CMD that does not ask is stopped from the terminal too, after the shell has brought it to the foreground.
func TestTerminalBroughtForward(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	end := u.fifo("end")
	s := u.interactive()
	fmt.Fprintf(s.keys, "%s run a -- sh -c 'echo pi''d $$.; read x <%s' &\n", binary, end)
	s.see("pid ")
	pid, err := strconv.Atoi(strings.TrimSuffix(s.see("."), "."))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(s.keys, "fg; echo status $?.")
	s.see("run a")
	s.press("\x1a", "Stopped")
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || !strings.Contains(string(text), ") T ") {
		t.Errorf("CMD is not stopped: %s, %v", text, err)
	}
	s.see("status ")
	fmt.Fprintln(s.keys, "fg; echo status $?.")
	s.see("run a")
	if err := os.WriteFile(end, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	s.see("status 0.")
}

// Where no shell is that would have it go on, as after ssh -t, CMD is not left stopped.
func TestTerminalWithoutShell(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	s := u.onTerminal(binary, "run", "a", "--", "sh", "-c", "echo begun.; while read x; do echo got $x.; done")
	s.see("begun.")
	fmt.Fprint(s.keys, "\x1a")
	s.see("^Z")
	fmt.Fprintln(s.keys, "more")
	s.see("got more.")
	fmt.Fprint(s.keys, "\x04")
	<-s.done
	if got := s.cmd.ProcessState.ExitCode(); got != 1 && got != 0 {
		t.Errorf("status %d", got)
	}
}

// One stile run in another passes on that its CMD asks for the terminal.
func TestTerminalNested(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	s := u.interactive()
	for _, script := range []string{
		"%[1]s run a -- %[1]s run b -- sh -c 'echo be''gun.; read x; echo got $x.'",
		"%[1]s run a -- %[1]s run b -- sh -c 'echo be''gun.; read x; echo got $x.' | cat",
		"%[1]s run a -- sh -c '%[1]s run b -- sh -c \"echo be''gun.; read x; echo got \\$x.\" | cat' | cat",
	} {
		fmt.Fprintf(s.keys, script+"; echo status $?.\n", binary)
		s.see("begun.")
		fmt.Fprintln(s.keys, "more")
		s.see("got more.")
		s.see("status 0.")
	}
}
