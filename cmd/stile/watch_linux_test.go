package main

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Off a terminal a watch prints one line for each change.
func TestWatchLines(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	p := u.start("watch", "a")
	next := func(want string) {
		t.Helper()
		if line := p.line(); len(line) < 13 || !strings.HasPrefix(line[12:], want) {
			t.Errorf("it prints %q; want a time and %q", line, want)
		}
	}
	next(" free")
	holder := u.start(with("a", idle, "--owner", "first", "--reason", "one")...)
	next(" holds   first on ")
	waiter := u.start(with("a", idle, "--owner", "second")...)
	next(" waits   second on ")
	holder.stdin.Close()
	next(" left    first on ")
	next(" holds   second on ")
	waiter.stdin.Close()
	next(" left    second on ")
	next(" free")
	p.signal(syscall.SIGTERM)
	if got := p.wait(); got != 128+15 || p.stderr.String() != "" {
		t.Errorf("status %d, %s; want 143", got, p.stderr)
	}
}

// On a terminal a watch redraws a page, and leaves the terminal as it was, whatever ends it.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, keys, status string }{{"q", "q", "status 0."}, {"Ctrl-C", "\x03", "status 130."}} {
		for _, colour := range []string{"", "1"} {
			t.Run(tt.name+" NO_COLOR="+colour, func(t *testing.T) {
				t.Parallel()
				u := newAccount(t).on(60, 16, "xterm")
				u.env = append(u.env, "NO_COLOR="+colour)
				holder := u.start(with("a", idle, "--owner", "nightly")...)
				holder.line()
				s := u.onTerminal("sh", "-c", `trap : INT; echo was $(stty -g).; "$0" watch a; echo status $?.; echo is $(stty -g).`, binary)
				s.see("was ")
				before := s.see(".")
				s.see("\x1b[?1049h\x1b[?25l")
				page := s.see("holds   nightly on ")
				if coloured := strings.Contains(page, "\x1b[32m"); coloured != (colour == "") {
					t.Errorf("colours: %v, with NO_COLOR=%q", coloured, colour)
				}
				if err := unix.IoctlSetWinsize(int(s.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 30, Row: 8}); err != nil {
					t.Fatal(err)
				}
				s.see("\x1b[H")
				if page := s.see("q ends"); strings.Count(page, "\r\n") != 7 {
					t.Errorf("after the window has changed the page has %d lines; want 8", strings.Count(page, "\r\n")+1)
				}
				holder.stdin.Close()
				s.see("left    nightly on ")
				s.see("q ends")
				if _, err := s.keys.Write([]byte(tt.keys)); err != nil {
					t.Fatal(err)
				}
				s.see("\x1b[?25h\x1b[?1049l")
				s.see("free")
				s.see(tt.status)
				s.see("is ")
				if after := s.see("."); after != before {
					t.Errorf("the terminal has %s; want it as before: %s", after, before)
				}
			})
		}
	}
}
