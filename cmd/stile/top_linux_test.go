package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/inspect"
)

// Off a terminal it is printed once, the most contended first.
func TestTop(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	if got := u.must("top"); got != "no names are in use\n" {
		t.Errorf("with no store yet: %q", got)
	}
	for _, name := range []string{"a/free", "a/sought", "b"} {
		u.start(with(name, idle, "--owner", "nightly")...).line()
	}
	for range 2 {
		u.start(with("a/sought", idle)...)
	}
	until(t, "two wait", func() bool { return len(u.show("a/sought").Claims) == 3 })
	lines := strings.Split(u.must("top"), "\n")
	for i, want := range []string{"NAME HOLD WAIT LONGEST FIRST SINCE LEASE", "a/sought 1 2 ", "a/free 1 0 - nightly on ", "b 1 0 - nightly on "} {
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d is %q; want %q", i+1, got, want)
		}
	}
	var views []inspect.QueueView
	if err := json.Unmarshal([]byte(u.must("top", "a/", "--json")), &views); err != nil || len(views) != 2 || views[0].Name != "a/sought" {
		t.Errorf("--json: %+v, %v; want a/sought, then a/free", views, err)
	}
}

// On a terminal it is a page that is redrawn.
func TestTopOnTerminal(t *testing.T) {
	t.Parallel()
	u := newAccount(t).on(60, 12, "xterm")
	s := u.onTerminal(binary, "top", "--every", "100ms")
	s.see("0 in use, 0 wait")
	holder := u.start(with("a", idle, "--owner", "nightly")...)
	holder.line()
	s.see("1 in use, 0 wait")
	s.see("nightly on ")
	holder.stdin.Close()
	s.see("0 in use, 0 wait")
	if _, err := s.keys.Write([]byte("\x03")); err != nil {
		t.Fatal(err)
	}
	s.see("\x1b[?25h\x1b[?1049l")
	<-s.done
	if got := s.cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("status %d; want 130", got)
	}
}

// A shell whose user stops it gets its terminal as it was.
func TestTopStopped(t *testing.T) {
	t.Parallel()
	u := newAccount(t).on(60, 12, "xterm")
	s := u.onTerminal("bash", "--norc", "--noprofile", "-i")
	fmt.Fprintf(s.keys, "%s top --every 100ms\n", binary)
	for range 5 {
		s.see("0 in use, 0 wait")
		s.press("\x1a", "Stopped")
		fmt.Fprintln(s.keys, "stty -a | grep -qw -- -icanon && echo ra''w. || echo as it ''was.; fg")
		s.see("as it was.")
	}
	s.see("0 in use, 0 wait")
	fmt.Fprint(s.keys, "q")
	s.see("bash-") // its prompt: no more keys are top's
	fmt.Fprintln(s.keys, "echo status $?.; exit")
	s.see("status 0.")
}
