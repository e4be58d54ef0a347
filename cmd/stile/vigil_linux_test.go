package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
		s.see("\r") // the next, after a second
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

// No line is drawn where it could not be redrawn, or is not wanted.
func TestNoLineOfWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, term, script, want string }{
		{"quiet", "xterm", `"$0" run a -q --wait 1200ms -- true; echo status $?.`, "status 75"},
		{"dumb", "dumb", `"$0" run a --wait 1200ms -- true 2>&1 | cat; echo end.`, `stile: lock "a": not had after `},
		{"dumb terminal", "dumb", `"$0" run a --wait 1200ms -- true; echo end.`, "stile: waiting for a: place 1 of 1, held by nightly on "},
		{"no TERM", "", `"$0" run a --wait 1200ms -- true; echo end.`, "stile: waiting for a: place 1 of 1, held by nightly on "},
		{"a pipe", "xterm", `"$0" run a --wait 1200ms -- true 2>&1 | cat; echo end.`, `stile: lock "a": not had after `},
		{"the background", "xterm", `set -m; "$0" run a --wait 1200ms -- true & wait; echo end.`, `stile: lock "a": not had after `},
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
