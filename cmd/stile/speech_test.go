package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// --verbose reports the waits and the lock's events, each with its time, and never a secret.
func TestVerbose(t *testing.T) {
	t.Parallel()
	const password = "hunter2hunter2"
	u := newAccount(t).at("redis://:" + password + "@" + servertest.Redis(t, "--requirepass", password).Addr)
	holder := u.start(with("a", idle, "--owner", "nightly", "--reason", "backup")...)
	holder.line()
	waiter := u.start("run", "a", "--ttl", "3s", "-v", "--", "sh", "-c", "cat >/dev/null")
	said := func(text string) {
		t.Helper()
		until(t, "it says "+text, func() bool { return strings.Contains(waiter.stderr.String(), text) })
	}
	said(" waiting for a: place 1 of 1, held by nightly on ")
	holder.stdin.Close()
	said(` "a" is held, by ticket `)
	said(` "a" was renewed, with `)
	waiter.stdin.Close()
	if got := waiter.wait(); got != 0 {
		t.Errorf("status %d, %s", got, waiter.stderr)
	}
	said(` "a" was released after `)
	lines := waiter.stderr.String()
	for line := range strings.Lines(lines) {
		if stamp, ok := strings.CutPrefix(line, "stile: "); !ok || len(stamp) < 13 || stamp[2] != ':' || stamp[8] != '.' {
			t.Errorf("it says %q; want the time before", line)
		}
	}
	script := u.run("lock", "b", "-v")
	if !strings.Contains(script.err, `"b" stays taken until 20`) || strings.Contains(script.err, "released") {
		t.Errorf("lock says %s; want that b stays taken", script.err)
	}
	if strings.Contains(lines+script.err, password) {
		t.Errorf("the password is said: %s%s", lines, script.err)
	}
}

// --quiet leaves out warnings, and nothing that matters.
func TestQuiet(t *testing.T) {
	t.Parallel()
	const password = "hunter2hunter2"
	url := "redis://:" + password + "@" + servertest.Redis(t, "--requirepass", password).Addr
	u := newAccount(t)
	for _, tt := range []struct {
		args []string
		code int
		says bool
	}{
		{[]string{"run", "a", "--", "true"}, 0, true}, // that everybody can read the password
		{[]string{"run", "a", "-q", "--", "true"}, 0, false},
		{[]string{"run", "a", "-q", "--", "sh", "-c", "echo mine >&2; exit 3"}, 3, true},
		{[]string{"run", "a", "-q", "--max-hold", "100ms", "--", "sleep", "100"}, 79, true},
	} {
		got := u.run(append([]string{"--url", url}, tt.args...)...)
		if got.code != tt.code || (got.err != "") != tt.says {
			t.Errorf("%q: status %d, %q; want %d, and to say something: %v", tt.args, got.code, got.err, tt.code, tt.says)
		}
	}
}
