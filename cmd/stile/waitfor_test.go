package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

func TestWaitForNobody(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("wait", "a") // nobody has taken a lock yet
	holder := u.start(with("a", idle, "--owner", "nightly")...)
	holder.line()
	next := u.start(with("a", idle, "--owner", "next")...)
	until(t, "the next waits", func() bool { return len(u.show("a").Claims) == 2 })
	for _, tt := range []struct {
		args string
		code int
		err  string
	}{
		{"wait a --wait 0s", exit.Held, `stile: wait "a": held by nightly on `},
		{"wait a --wait 2s", exit.Held, `stile: wait "a": not free after 2s: held by nightly on `},
		{"wait a --wait 2s --gone -E 3", 3, `stile: wait "a": not free after 2s: held by nightly on `},
		{"wait a --wait 2s -q", exit.Held, ""},
		{"wait b", 0, ""},
		{"wait b --gone --wait 0s", 0, ""},
	} {
		got := u.run(strings.Fields(tt.args)...)
		if got.code != tt.code || !strings.HasPrefix(got.err, tt.err) || tt.err == "" && got.err != "" || got.out != "" {
			t.Errorf("stile %s: status %d, %q, %q; want %d, %q", tt.args, got.code, got.err, got.out, tt.code, tt.err)
		}
	}
	free, gone := u.start("wait", "a", "-v"), u.start("wait", "a", "--gone", "-v")
	for _, p := range []*process{free, gone} {
		until(t, "it waits", func() bool { return strings.Contains(p.stderr.String(), "waiting for a: held by nightly on ") })
	}
	holder.stdin.Close()
	if got := gone.wait(); got != 0 {
		t.Errorf("--gone: status %d, %s", got, gone.stderr)
	}
	until(t, "the other waits for the next", func() bool { return strings.Contains(free.stderr.String(), "held by next on ") })
	next.stdin.Close()
	if got := free.wait(); got != 0 {
		t.Errorf("status %d, %s", got, free.stderr)
	}
	if got := u.run("run", "a", "--", binary, "wait", "a"); got.code != exit.BadUsage {
		t.Errorf("under a stile run that holds it: status %d, %s; want %d", got.code, got.err, exit.BadUsage)
	}
	p := u.start(with("a", idle)...)
	p.line()
	interrupted := u.start("wait", "a", "-v")
	until(t, "it waits", func() bool { return strings.Contains(interrupted.stderr.String(), "waiting for a: ") })
	interrupted.signal(2)
	if got := interrupted.wait(); got != 130 {
		t.Errorf("interrupted: status %d; want 130", got)
	}
}

// A store that does not answer is not somebody who holds the lock.
func TestWaitForNobodyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	u := newAccount(t).at("redis://" + server.Addr)
	holder := u.start(with("a", idle)...)
	holder.line()
	waiter := u.start("wait", "a", "--wait", "15s", "-v")
	until(t, "it waits", func() bool { return strings.Contains(waiter.stderr.String(), "waiting for a: held by ") })
	server.Pause()
	if got := u.run("wait", "a", "--wait", "100ms"); got.code != exit.Store || strings.Contains(got.err, "held by") {
		t.Errorf("a store that hangs: status %d, %s; want %d", got.code, got.err, exit.Store)
	}
	server.Resume()
	server.Stop()
	if got := waiter.wait(); got != exit.Store {
		t.Errorf("a store that went away: status %d, %s; want %d", got, waiter.stderr, exit.Store)
	}
}
