package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// CMD learns of each lock by its place on the command line, and a script that knows of one only finds none.
func TestSeveralNames(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.env = append(u.env, "STILE_NAME=stale", "STILE_TOKEN=1", "STILE_NAME_3=stale", "STILE_TOKEN_10=1", "STILE_NAME_OF=mine")
	out := u.must("run", "b", "a", "--", "sh", "-c", `env | grep '^STILE_\(NAME\|TOKEN\)' | sort; "$0" show a --json; "$0" show b --json`, binary)
	env, shown, _ := strings.Cut(out, "{")
	lines := strings.Split(strings.TrimSpace(env), "\n")
	for i, want := range []string{"STILE_NAME_1=b", "STILE_NAME_2=a", "STILE_NAME_OF=mine", "STILE_TOKEN_1=", "STILE_TOKEN_2="} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) || want == lines[i] && strings.Contains(want, "TOKEN") {
			t.Fatalf("CMD has\n%s\nwant in line %d %s…", env, i+1, want)
		}
	}
	for i, name := range []string{"b", "a"} { // the token in the variable is the claim's
		token := strings.TrimPrefix(lines[3+i], "STILE_TOKEN_"+string(rune('1'+i))+"=")
		_, of, _ := strings.Cut("{"+shown, `"name": "`+name+`"`)
		if of, _, _ = strings.Cut(of, `"name"`); !strings.Contains(of, token) {
			t.Errorf("%s: the token %s is not that of its claim: %s", name, token, of)
		}
	}
	if got := u.show("a").Claims; len(got) != 0 {
		t.Errorf("a is still held: %+v", got)
	}
	for inner, code := range map[string]int{"run a -- true": 64, "lock b --try": 64, "run c -- true": 0, "run c b -- true": 64} {
		got := u.run(append([]string{"run", "a", "b", "--", binary}, strings.Fields(inner)...)...)
		if got.code != code {
			t.Errorf("run a b -- stile %s: status %d, %s; want %d", inner, got.code, got.err, code)
		}
	}
}

// Two who want the same locks in another order both get them.
func TestSeveralNamesInAnyOrder(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	var loops []*process
	for _, names := range []string{"a b", "b a", "b c a"} {
		loops = append(loops, u.launch(u.command("sh", "-c", `for i in 1 2 3 4 5 6; do "$0" run `+names+` --wait 1m -- true || exit; done`, binary)))
	}
	for _, p := range loops {
		if got := p.wait(); got != 0 {
			t.Errorf("%v: status %d, %s", p.cmd.Args, got, p.stderr)
		}
	}
}

func TestSeveralNamesAllOrNone(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	holder := u.start(with("b", idle, "--owner", "me")...)
	holder.line()
	for _, how := range [][]string{{"--try"}, {"--wait", "4s"}} {
		got := u.run(append(append([]string{"run", "a", "b", "c"}, how...), "--", "true")...)
		if got.code != exit.Held || !strings.Contains(got.err, `"b": `) || !strings.Contains(got.err, "held by me on") {
			t.Errorf("%v: status %d, %s; want %d, and who holds b", how, got.code, got.err, exit.Held)
		}
		for _, name := range []string{"a", "c"} {
			if got := u.show(name).Claims; len(got) != 0 {
				t.Errorf("%v: %s is held: %+v", how, name, got)
			}
		}
	}
	holder.stdin.Close()
	holder.wait()
	p := u.start("run", "a", "b", "--", "sh", "-c", "echo $$; exec sleep 1000")
	cmd := p.pid()
	u.must("break", "b", "--reason", "test", "--yes")
	if got := p.wait(); got != exit.Lost || !strings.HasPrefix(p.stderr.String(), `stile: run "b": the lock was lost while CMD ran: `) || !demotest.Dead(cmd) {
		t.Errorf("one of two is lost: status %d, %s; want %d, and b", got, p.stderr, exit.Lost)
	}
	if got := u.show("a").Claims; len(got) != 0 {
		t.Errorf("a is still held: %+v", got)
	}
}

// A lock that was lost is kept from others for --lock-delay, and one that was released is not.
func TestLockDelay(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("run", "a", "--lock-delay", "1h", "--", "true")
	u.must("lock", "a", "--ttl", "4s", "--lock-delay", "1h", "--try")
	until(t, "the lease has run out", func() bool { return strings.Contains(u.must("show", "a"), "run out") })
	if got := u.run("run", "a", "--try", "--", "true"); got.code != exit.Held || !strings.Contains(got.err, "kept from others by its lock-delay") {
		t.Errorf("in the lock-delay: status %d, %s; want %d", got.code, got.err, exit.Held)
	}
	session := "postgres://postgres@" + servertest.Postgres(t).Addr + "/postgres?mode=session"
	for _, args := range [][]string{{"run", "a", "--lock-delay", "1s", "--", "true"}, {"elect", "a", "--lock-delay", "1s", "--", "true"}} {
		got := u.run(append([]string{"--url", session}, args...)...)
		if want := `: the store cannot do this: postgres session has no lock-delay`; got.code != exit.BadUsage || !strings.Contains(got.err, want) {
			t.Errorf("%v: status %d, %s; want %d, %s", args, got.code, got.err, exit.BadUsage, want)
		}
	}
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("lock", "a", "--owner", "job", "--reclaim")
	if got := u.run("run", "a", "--try", "--owner", "job", "--", "true"); got.code != exit.Held {
		t.Errorf("without --reclaim: status %d, %s; want %d", got.code, got.err, exit.Held)
	}
	if got := u.run("run", "a", "--try", "--owner", "other", "--reclaim", "--", "true"); got.code != exit.Held {
		t.Errorf("another owner: status %d, %s; want %d", got.code, got.err, exit.Held)
	}
	u.must("run", "a", "--try", "--owner", "job", "--reclaim", "--", "true")
}
