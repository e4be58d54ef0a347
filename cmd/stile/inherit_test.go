package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// A store that is named by nothing is a mistake, and not the default store.
func TestEmptyURL(t *testing.T) {
	u := newAccount(t)
	for _, tt := range []struct{ variable, args, want string }{
		{"STILE_URL=", "ls", "stile: STILE_URL is set, but empty"},
		{"STILE_URL=", "run a -- true", "stile: STILE_URL is set, but empty"},
		{"STILE_URL_FILE=", "lock a", "stile: STILE_URL_FILE is set, but empty"},
		{"STILE_URL_FILE=/nowhere", "show a", "stile: STILE_URL_FILE: there is no /nowhere"},
		{"STILE_URL_FILE=" + u.home, "show a", "stile: STILE_URL_FILE: read " + u.home},
		{"STILE_URL_FILE=/dev/null", "show a", "stile: STILE_URL_FILE: /dev/null is empty"},
		{"X=", "ls --url=", "stile: --url is empty"},
		{"X=", "run --url= a -- true", "stile: --url is empty"},
		{"X=", "ls --url=sqlite:///", "stile: sqlite:///: open: a sqlite:/// URL names no file"},
		{"X=", "run --url=sqlite:/// a -- true", "stile: sqlite:///: open: a sqlite:/// URL names no file"},
		{"STILE_URL=sqlite:///?busy=1s", "lock a", "stile: sqlite:///: open: a sqlite:/// URL names no file"},
		{"X=", "run --url=shard://?stores=a=sqlite:/// a -- true", "stile: shard:///: open: store a: a sqlite:/// URL names no file"},
		{"X=", "demo tickets --url=sqlite:///", "stile: sqlite:///: open: a sqlite:/// URL names no file"},
		{"X=", "demo tickets --url=", "stile: --url is empty"},
		{"X=", "lock a --url memory://", "stile: memory:// keeps locks within one process"},
		{"STILE_URL=memory://", "run a -- true", "stile: memory:// keeps locks within one process"},
	} {
		with := *u
		with.env = append(with.env, tt.variable)
		if got := with.run(strings.Fields(tt.args)...); got.code != 64 || !strings.HasPrefix(got.err, tt.want) {
			t.Errorf("%s stile %s: status %d, %s; want 64, %s", tt.variable, tt.args, got.code, got.err, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(u.home, "state")); !os.IsNotExist(err) {
		t.Errorf("the default store: %v; want it not made", err)
	}
}

// A stile in CMD has the store of the stile that runs CMD.
func TestCommandHasTheStore(t *testing.T) {
	const password = "a password: @/?"
	redis := "redis://:a%20password%3A%20%40%2F%3F@" + servertest.Redis(t, "--requirepass", password).Addr
	inner := []string{"--", "bash", "-c", `"$0" ls --json | tr -d "\n "; echo; printenv STILE_URL; stat -c %a "$STILE_URL_FILE"`, binary}
	for _, tt := range []struct {
		name, variable string
		url            string
		seen, mode     string
	}{
		{"flag", "X=", "sqlite://" + t.TempDir() + "/flag.db", "sqlite://", ""},
		{"variable", "STILE_URL=sqlite://" + t.TempDir() + "/variable.db", "", "sqlite://", ""},
		{"default", "X=", "", "", ""},
		{"password in the flag", "STILE_URL=sqlite:///nowhere/other.db", redis, "", "600"},
		{"password in the variable", "STILE_URL=" + redis, "", redis, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newAccount(t)
			u.env = append(u.env, tt.variable)
			args := []string{"run", "outer"}
			if tt.url != "" {
				args = append(args, "--url", tt.url)
			}
			got := u.run(append(args, inner...)...)
			lines := strings.Split(got.out, "\n")
			if !strings.Contains(lines[0], `"name":"outer"`) {
				t.Errorf("the stile in CMD sees %s, %s; want the lock that CMD runs under", lines[0], got.err)
			}
			if tt.seen != "" && !strings.HasPrefix(lines[1], tt.seen) {
				t.Errorf("CMD has STILE_URL %q; want %s…", lines[1], tt.seen)
			}
			if mode := lines[len(lines)-2]; (mode == "600") != (tt.mode == "600") {
				t.Errorf("CMD has %q last; want a file of mode %q", mode, tt.mode)
			}
			if left, _ := filepath.Glob(filepath.Join(u.home, "run", "stile", "*.url")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	t.Run("stile is killed", func(t *testing.T) {
		u := newAccount(t)
		p := u.start("run", "outer", "--url", redis, "--", "bash", "-c", `echo "$STILE_URL_FILE"; cat`)
		path := p.line()
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGKILL)
		until(t, "the file with the password is gone", func() bool { _, err := os.Stat(path); return os.IsNotExist(err) })
	})
}

// Who waits under a lock for the same lock would wait for ever.
func TestConflictWithAnAncestor(t *testing.T) {
	u := newAccount(t)
	other := "sqlite://" + filepath.Join(u.home, "other.db")
	for _, tt := range []struct {
		outer, inner string
		code         int
	}{
		{"run a", "run a -- true", 64},
		{"run a", "lock a", 64},
		{"run a", "elect a -- true", 64},
		{"elect a", "run a --try -- true", 64},
		{"run a", "run a --read -- true", 64},
		{"run a --read", "run a -- true", 64},
		{"run a --read", "run a --read -- true", 0},
		{"run a", "run b -- true", 0},
		{"run a", "run a --url " + other + " -- true", 0},
		{"run a --of 2", "run a --of 2 -- true", 0},
		{"run a --of 2", "run a --of 2 --permits 2 -- true", 64},
		{"run a", "run b -- " + binary + " run a -- true", 64},
	} {
		args := append(strings.Fields(tt.outer), "--", binary)
		got := u.run(append(args, strings.Fields(tt.inner)...)...)
		if got.code != tt.code || tt.code == 64 && !strings.Contains(got.err, `this command runs under a stile run that holds "a" (process `) {
			t.Errorf("%s -- stile %s: status %d, %s; want %d", tt.outer, tt.inner, got.code, got.err, tt.code)
		}
	}
	script := filepath.Join(u.home, "a) 1 2") // a name that looks like the end of one in /proc
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+binary+" run a --wait 2s -- true\nexit $?\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := u.run("run", "a", "--", script); got.code != 64 {
		t.Errorf("below %s: status %d, %s; want 64", script, got.code, got.err)
	}
	// A process that outlived CMD, or one that only has the variable, is nobody's descendant.
	held := strings.TrimSpace(u.must("run", "a", "--", "printenv", "STILE_HELD"))
	parts := strings.Split(held, ":")
	stranger := u.start("run", "b", "--", "cat")
	for _, process := range []string{fmt.Sprint(stranger.cmd.Process.Pid), parts[3], "0", "-1", "x"} {
		with := *u
		with.env = append(with.env, "STILE_HELD= x :: "+strings.Join(append(parts[:3:3], process), ":"))
		with.must("run", "a", "--", "true")
	}
}
