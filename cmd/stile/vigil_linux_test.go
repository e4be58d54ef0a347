package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/internal/servertest"
)

// on makes terminals have a size and a kind.
func (u *account) on(columns, rows uint16, term string) *account {
	u.size = []unix.Winsize{{Col: columns, Row: rows}}
	u.env = append(u.env, "TERM="+term)
	return u
}

// A long wait shows one line on a terminal, which fits it and leaves nothing behind.
func TestLineOfWait(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{80, 60} {
		u := newAccount(t).on(columns, 24, "xterm")
		u.at("sqlite://" + u.home + "/locks.db") // of which nothing is said
		holder := u.start(with("backup", idle, "--owner", "nightly", "--reason", strings.Repeat("long ", 20))...)
		holder.line()
		s := u.onTerminal(binary, "run", "backup", "--", "echo", "mine.")
		if begin := s.see("\rstile: "); begin != "\rstile: " {
			t.Errorf("%d columns: before the line it wrote %q", columns, begin)
		}
		s.see("held by nightly on ")
		s.see("\r\r") // the next, after a second
		line := strings.TrimSuffix(s.see("\x1b[K"), "\x1b[K")
		if n := len([]rune(line)); n >= int(columns) || !strings.Contains(line, "place 1") || !strings.HasSuffix(line, "…") {
			t.Errorf("%d columns: the line is %q; want the place, and that it is cut", columns, line)
		}
		holder.stdin.Close()
		s.see("\r\x1b[K")
		if got := s.see("mine."); got != "mine." {
			t.Errorf("%d columns: CMD's output is %q; want the line gone before", columns, got)
		}
		<-s.done
	}
}

// The echo of ^C does not make the line wrap, however narrow the terminal is, and the line is gone before the shell goes on.
func TestLineOfWaitInterrupted(t *testing.T) {
	t.Parallel()
	escapes := regexp.MustCompile("\x1b\\[[A-Z]")
	for _, columns := range []uint16{80, 60, 40} {
		u := newAccount(t).on(columns, 24, "xterm")
		u.at("sqlite://" + u.home + "/locks.db")
		u.must("lock", "backup", "--owner", "nightly", "--reason", strings.Repeat("long ", 20))
		s := u.onTerminal(binary, "run", "backup", "--", "true")
		seen := s.see("place 1") + s.see("…")
		fmt.Fprint(s.keys, "\x03")
		seen += s.see("^C")
		line := escapes.ReplaceAllString(seen[strings.LastIndex(seen, "\r")+1:], "")
		if n := len([]rune(line)); n >= int(columns) {
			t.Errorf("%d columns: the cursor is at column %d after %q", columns, n, line)
		}
		s.see("\r\x1b[K")
		<-s.done
	}
}

// No line is drawn where it could not be redrawn, or is not wanted.
func TestNoLineOfWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, term, script, want string }{
		{"quiet", "xterm", `"$0" run a -q --wait 4s -- true; echo status $?.`, "status 75"},
		{"dumb", "dumb", `"$0" run a --wait 4s -- true 2>&1 | cat; echo end.`, `stile: lock "a": not had after `},
		{"dumb terminal", "dumb", `"$0" run a --wait 4s -- true; echo end.`, "stile: waiting for a: place 1 of 1, held by nightly on "},
		{"no TERM", "", `"$0" run a --wait 4s -- true; echo end.`, "stile: waiting for a: place 1 of 1, held by nightly on "},
		{"a pipe", "xterm", `"$0" run a --wait 4s -- true 2>&1 | cat; echo end.`, `stile: lock "a": not had after `},
		{"the background", "xterm", `set -m; "$0" run a --wait 4s -- true & wait; echo end.`, `stile: lock "a": not had after `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t).on(80, 24, tt.term)
			u.at("sqlite://" + u.home + "/locks.db")
			u.must("lock", "a", "--owner", "nightly")
			s := u.onTerminal("bash", "--norc", "--noprofile", "-c", tt.script, binary)
			got := s.see(tt.want)
			if !strings.HasPrefix(got, tt.want) || strings.Contains(got, "\x1b") {
				t.Errorf("the terminal has %q; want only %q", got, tt.want)
			}
			if rest := s.see("."); strings.Contains(rest, "\x1b") {
				t.Errorf("the terminal has %q", rest)
			}
		})
	}
}

// A store that has not answered yet is named on the line, which goes when the store answers or when the time is over.
func TestLineWhileOpening(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	url := "redis://" + server.Addr
	server.Pause()
	for _, command := range []string{"run a -- echo mine.", "wait a", "show a"} {
		u := newAccount(t).on(80, 24, "xterm").at(url)
		s := u.onTerminal(binary, strings.Fields(command)...)
		s.see("stile: waiting ")
		if waited := strings.TrimSuffix(s.see("s for "+url+"/ to answer"), "s for "+url+"/ to answer"); strings.Trim(waited, "0123456789") != "" {
			t.Errorf("stile %s: it says that it waits for %qs; want seconds", command, waited)
		}
		server.Resume()
		s.see("\r\x1b[K")
		<-s.done
		server.Pause()
	}
	u := newAccount(t).on(80, 24, "dumb").at(url)
	s := u.onTerminal(binary, "run", "a", "--wait", "4s", "--", "true")
	if got := s.see("to answer"); got != "stile: waiting for "+url+"/ to answer" {
		t.Errorf("a terminal that does not redraw has %q; want one line", got)
	}
	if rest := s.see("--wait allows"); strings.Count(rest, "to answer") > 0 || strings.Contains(rest, "\x1b") {
		t.Errorf("a terminal that does not redraw then has %q", rest)
	}
	<-s.done
	server.Resume()
}
