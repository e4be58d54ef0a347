package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/demotest"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// idle is a CMD that says when it runs and ends with its stdin.
var idle = []string{"--", "sh", "-c", "echo $$; cat >/dev/null"}

// family is a CMD whose group has a child and a grandchild, all of which ignore SIGTERM. It prints the three process ids,
// and a word for each SIGUSR1.
var family = []string{"--", "sh", "-c", `trap "" TERM; trap "echo here" USR1
	sh -c 'trap "" TERM USR1; sh -c "echo \$\$; exec sleep 1000" & echo $$; wait' &
	echo $$; while kill -0 $!; do wait; done`}

func with(name string, cmd []string, flags ...string) []string {
	return slices.Concat([]string{"run", name}, flags, cmd)
}

func TestExitStatus(t *testing.T) {
	u := newAccount(t)
	script := filepath.Join(u.home, "script")
	for name, mode := range map[string]os.FileMode{script: 0o600, script + "2": 0o700} {
		if err := os.WriteFile(name, []byte("#!/no/such/interpreter\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	locked := servertest.Redis(t, "--requirepass", "secret")
	holder := u.start(with("held", idle, "--owner", "nightly", "--reason", "backup")...)
	holder.line()
	for _, tt := range []struct {
		args []string
		want int
		err  string // what stderr begins with; nothing if nothing
	}{
		{[]string{"run", "a", "--", "true"}, 0, ""},
		{[]string{"run", "a", "--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"run", "a", "--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"run", "a", "--", "no-such-command"}, 127, "stile: no-such-command is not found in PATH\n"},
		{[]string{"run", "a", "--", "./no/such"}, 127, "stile: ./no/such is not found\n"},
		{[]string{"run", "a", "--", script}, 126, "stile: " + script + " cannot be executed: it lacks the permission"},
		{[]string{"run", "a", "--", script + "2"}, 126, "stile: " + script + "2 cannot be executed: there is no such interpreter as it names after #!"},
		{[]string{"run", "a", "--", "/"}, 126, "stile: / cannot be executed: is a directory\n"},
		{[]string{"run", "held", "--try", "--", "true"}, 75, `stile: try "held": held by nightly on `},
		{[]string{"run", "held", "--try", "-q", "--", "true"}, 75, ""},
		{[]string{"lock", "held", "--wait", "2s", "--quiet", "-E", "3"}, 3, ""},
		{[]string{"run", "a", "-q", "--", "no-such-command"}, 127, "stile: no-such-command is not found in PATH\n"},
		{[]string{"run", "a", "-q", "--verbose", "--", "true"}, 64, "stile: --quiet says less and --verbose says more: give one of them\n"},
		{[]string{"elect", "a", "--watch", "-q", "-v"}, 64, "stile: --quiet says less and --verbose says more: give one of them\n"},
		{[]string{"run", "held", "--wait", "2s", "--", "true"}, 75, `stile: lock "held": not had after 2s: held by nightly on `},
		{[]string{"run", "held", "--try", "-E", "3", "--", "true"}, 3, `stile: try "held": held by nightly on `},
		{[]string{"lock", "held", "--wait", "2s", "--conflict-exit-code", "0"}, 0, `stile: lock "held": not had after 2s: held by nightly on `},
		{[]string{"elect", "held", "--try", "-E", "256", "--", "true"}, 64, "stile: --conflict-exit-code 256: an exit status is from 0 to 255"},
		{[]string{"lock", "held", "--try"}, 75, `stile: try "held": held by nightly on `},
		{[]string{"run", "held", "--permits", "1", "--of", "3", "--", "true"}, 64,
			`stile: lock "held": the name is in use with other permits: exists with no permits (a mutex or a reader and writer), asked for 3`},
		{[]string{"--url", "redis://127.0.0.1:1", "ls"}, 69, "stile: redis://127.0.0.1:1/: open: the store cannot be reached: tried for 5s: cannot connect to redis at 127.0.0.1:1"},
		{[]string{"--url", "redis://:wrong@" + locked.Addr, "ls"}, 64,
			"stile: redis://" + locked.Addr + "/: open: redis does not accept the default user with this password"},
		{[]string{"--url", "redis://" + locked.Addr, "ls"}, 64, "stile: redis://" + locked.Addr + "/: open: redis asks for a password"},
		{[]string{"--url", "bogus://x", "ls"}, 64, `stile: bogus://x/: open: unknown store "bogus"; known: `},
		{[]string{"--url", "bogus", "ls"}, 64, "stile: the store's URL must begin with a scheme"},
		{[]string{"--url", "redis://x?y=1", "ls"}, 64, `stile: redis://x/: open: unknown parameter "y" for redis://; known: `},
		{[]string{"--url", "sqlite:///dev/null", "ls"}, 64, "stile: sqlite:///dev/null: open: lock file /dev/null is not a regular file"},
		{[]string{"bogus"}, 64, `stile: there is no command "bogus"; there are: bench, break, `},
		{[]string{"lokc", "a"}, 64, `stile: there is no command "lokc"; did you mean lock?; there are: bench, break, `},
		{[]string{strings.Repeat("y", 100000)}, 64, `stile: there is no command "` + strings.Repeat("y", 64) + `"…; there are: bench, break, `},
		{[]string{"help", "bogus"}, 64, `stile: there is no command "bogus"; there are: bench, break, `},
		{[]string{"run", "a", "--tll", "5s", "--", "true"}, 64, "stile: unknown flag: --tll; did you mean --ttl?"},
		{[]string{"ls", "--url", "redsi://x"}, 64, `stile: redsi://x/: open: unknown store "redsi"; did you mean redis?; known: consul, `},
		{[]string{"ls", "--url", "redis://x?layuot=setnx"}, 64, `stile: redis://x/: open: unknown parameter "layuot" for redis://; did you mean layout?; known: `},
		{[]string{"run", "a", "--", ""}, 64, "stile: CMD is empty"},
		{[]string{"run"}, 64, "stile: stile run needs one NAME or more, then --, then CMD"},
		{[]string{"run", "a", "true"}, 64, "stile: there is no -- between NAME and CMD; as in: stile run a -- true"},
		{[]string{"run", "a", "--"}, 64, "stile: stile run needs one NAME or more, then --, then CMD"},
		{[]string{"run", "a", "b", "--"}, 64, "stile: stile run needs one NAME or more, then --, then CMD"},
		{[]string{"run", "--", "true"}, 64, "stile: stile run needs one NAME or more, then --, then CMD"},
		{[]string{"run", "a", "b", "a", "--", "true"}, 64, `stile: NAME "a" is there twice: it would wait for itself`},
		{[]string{"run", "a", "b\nc", "--", "true"}, 64, `stile: NAME "b\nc": the name has control character U+000A at position 1`},
		{[]string{"elect", "a", "b", "--", "true"}, 64, "stile: stile elect needs one NAME, then --, then CMD, or else --watch"},
		{[]string{"lock", "a", "b"}, 64, "stile: stile lock needs one NAME, and got 2"},
		{[]string{"run", "a", "--lock-delay", "5", "--", "true"}, 64,
			`stile: invalid argument "5" for --lock-delay: a duration is a number with its unit, such as 500ms, 10s or 1h30m`},
		{[]string{"run", "a", "--lock-delay", "25h", "--", "true"}, 64, "stile: --lock-delay 25h0m0s is too long: the longest is 24h0m0s\n"},
		{[]string{"lock", "a", "--reclaim"}, 64, "stile: --reclaim needs --owner, the name of the job by which its earlier run is known\n"},
		{[]string{"run", "a", "--bogus", "--", "true"}, 64, "stile: unknown flag: --bogus\n"},
		{[]string{"run", "a", "--ttl", "5", "--", "true"}, 64,
			`stile: invalid argument "5" for --ttl: a duration is a number with its unit, such as 500ms, 10s or 1h30m`},
		{[]string{"run", "a", "--wait", "-1s", "--", "true"}, 64, `stile: invalid argument "-1s" for --wait: it must not be negative`},
		{[]string{"run", "a", "--ttl", "0s", "--", "true"}, 64, "stile: --ttl 0 is too short"},
		{[]string{"run", "a", "--ttl", "25h", "--", "true"}, 64, `stile: lock "a": invalid ttl 25h0m0s: the longest is 24h0m0s`},
		{[]string{"run", "a", "--ttl", "1us", "--", "true"}, 64, `stile: lock "a": invalid ttl 1µs: the shortest that sqlite keeps is `},
		{[]string{"run", "a", "--try", "--wait", "1s", "--", "true"}, 64, "stile: --try does not wait"},
		{[]string{"run", "a", "--permits", "2", "--", "true"}, 64, "stile: --permits needs --of"},
		{[]string{"run", "a", "--permits", "0", "--of", "3", "--", "true"}, 64, `stile: lock "a": invalid permits 0: it must be from 1 to 3`},
		{[]string{"run", "a", "--permits", "-1", "--of", "3", "--", "true"}, 64, `stile: lock "a": invalid permits -1: it must be from 1 to 3`},
		{[]string{"run", "a", "--permits", "4", "--of", "3", "--", "true"}, 64, `stile: lock "a": invalid permits 4: it must be from 1 to 3`},
		{[]string{"run", "a", "--of", "0", "--", "true"}, 64, `stile: --of 0: it is how many permits the name has, one at least`},
		{[]string{"run", "a", "--read", "--of", "3", "--", "true"}, 64, "stile: --read does not go with --permits and --of"},
		{[]string{"run", "a", "--ttl", "9s", "--grace", "5s", "--", "true"}, 64, "stile: --grace 5s is too long: with --ttl 9s it can be at most 4.5s\n"},
		{[]string{"run", "a", "--ttl", "4s", "--grace", "3s", "--", "true"}, 64, "stile: --grace 3s is too long: with --ttl 4s it can be at most 2s\n"},
		{[]string{"run", "a", "--at-least", "25h", "--", "true"}, 64, "stile: --at-least 25h0m0s is too long: the longest is 24h0m0s\n"},
		{[]string{"run", "a", "--max-hold", "0s", "--", "true"}, 64, "stile: --max-hold 0 leaves CMD no time"},
		{[]string{"run", "", "--", "true"}, 64, `stile: NAME "": the name is empty`},
		{[]string{"run", strings.Repeat("x", 256), "--", "true"}, 64, `stile: NAME "` + strings.Repeat("x", 64) + `"…: the name is 256 bytes long; the limit is 255`},
		{[]string{"run", "a\xff", "--", "true"}, 64, `stile: NAME "a\xff": the name is not valid UTF-8 (byte 0xff at position 1)`},
		{[]string{"run", "a\nb", "--", "true"}, 64, `stile: NAME "a\nb": the name has control character U+000A at position 1`},
		{[]string{"show"}, 64, "stile: stile show needs one NAME, and got 0"},
		{[]string{"show", "a\x1b[2J"}, 64, `stile: NAME "a\x1b[2J": the name has control character U+001B at position 1`},
		{[]string{"ls", "a", "b"}, 64, "stile: stile ls takes one PREFIX at most, and got 2"},
		{[]string{"wait"}, 64, "stile: stile wait needs one NAME, and got 0; as in: stile wait NAME\n"},
		{[]string{"wait", "a", "b"}, 64, "stile: stile wait needs one NAME, and got 2; as in: stile wait NAME\n"},
		{[]string{"wait", "a", "--wait", "5"}, 64, `stile: invalid argument "5" for --wait: a duration is a number with its unit`},
		{[]string{"wait", "a", "-E", "-1"}, 64, "stile: --conflict-exit-code -1: an exit status is from 0 to 255\n"},
		{[]string{"wait", "a", "--gone=maybe"}, 64, `stile: invalid argument "maybe" for --gone: `},
		{[]string{"wait", "a", "--ttl", "5s"}, 64, "stile: unknown flag: --ttl\n"},
		{[]string{"top", "a", "b"}, 64, "stile: stile top takes one PREFIX at most, and got 2\n"},
		{[]string{"top", "--every", "0s"}, 64, "stile: --every 0s is too often: it must be at least 100ms\n"},
		{[]string{"top", "--every", "2"}, 64, `stile: invalid argument "2" for --every: a duration is a number with its unit`},
		{[]string{"unlock", "nothing"}, 64, "stile: which grant of \"nothing\"? STILE_GRANT_NOTHING_"},
		{[]string{"renew"}, 64, "stile: stile renew needs NAME or --handle FILE"},
		{[]string{"break", "held", "--yes"}, 64, "stile: stile break needs --reason TEXT"},
		{[]string{"break", "held", "--reason", "x"}, 64, "stile: stile break asks first, and stdin is not a terminal"},
		{[]string{"break", "held", "--reason", "x", "--yes", "--ticket", "x"}, 64, `stile: --ticket "x" is not a ticket`},
		{[]string{"break", "held", "--reason", "x", "--yes", "--ticket", "1"}, 64, `stile: there is no such claim on "held"`},
		{[]string{"break", "free", "--reason", "x", "--yes"}, 64, `stile: there is no such claim on "free"`},
		{[]string{"demo"}, 64, "stile: stile demo needs to know what to show; there is: tickets; payment, market, cron and leader are a program of their own: go run "},
		{[]string{"demo", "tickets", "--processes", "1"}, 64, "stile: --processes 1: it must be from 2 to 64"},
		{[]string{"demo", "tickets", "--url", "memory://"}, 64, "stile: memory:// keeps locks within one process"},
		{[]string{"version", "x"}, 64, "stile: stile version takes no arguments"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			r := u.run(tt.args...)
			if r.code != tt.want {
				t.Errorf("status %d, want %d", r.code, tt.want)
			}
			// The warning about a password on the command line is TestGoodPasswordIsNeverShown's.
			r.err = r.err[max(0, strings.Index(r.err, "\nstile: ")+1):]
			if !strings.HasPrefix(r.err, tt.err) || (r.err == "") != (tt.err == "") {
				t.Errorf("stderr %q, want %q", r.err, tt.err)
			}
			if n := strings.Count(r.err, "\n"); n > 1 {
				t.Errorf("%d lines on stderr: %q", n, r.err)
			}
		})
	}
}

func TestEnvironmentOfCommand(t *testing.T) {
	u := newAccount(t)
	u.at("sqlite://" + u.home + "/other.db")
	u.env = append(u.env, "STILE_TOKEN=stale", "KEPT=yes")
	const ttl = 30 * time.Second
	before := time.Now()
	out := u.must("run", "a name", "--ttl", ttl.String(), "--", "env")
	after := time.Now()
	env := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if _, twice := env[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		env[key] = value
	}
	if got := env["STILE_NAME"]; got != "a name" {
		t.Errorf("STILE_NAME=%q", got)
	}
	if got := env["KEPT"]; got != "yes" {
		t.Errorf("KEPT=%q", got)
	}
	first, err := strconv.ParseInt(env["STILE_TOKEN"], 10, 64)
	if err != nil || first <= 0 {
		t.Errorf("STILE_TOKEN=%q: %v", env["STILE_TOKEN"], err)
	}
	deadline, err := time.Parse(time.RFC3339, env["STILE_DEADLINE"])
	if err != nil || deadline.Before(before.Add(ttl*2/3)) || deadline.After(after.Add(ttl)) || !strings.Contains(env["STILE_DEADLINE"], ".") {
		t.Errorf("STILE_DEADLINE=%q, %v, of a CMD between %v and %v", env["STILE_DEADLINE"], err, before, after)
	}
	if url, want := env[store.URLVariable], "sqlite://"+u.home+"/other.db"; url != want {
		t.Errorf("CMD got %s=%s; want %s", store.URLVariable, url, want)
	}
	second, err := strconv.ParseInt(strings.TrimSpace(u.must("run", "a name", "--", "printenv", "STILE_TOKEN")), 10, 64)
	if err != nil || second <= first {
		t.Errorf("token %d after %d: %v", second, first, err)
	}
}

// CMD's arguments, environment and streams are bytes, and its own.
func TestStreamsOfCommand(t *testing.T) {
	u := newAccount(t)
	u.env = append(u.env, "BYTES=\xff\xfe")
	p := u.start("run", "a", "--", "sh", "-c", `printf '%s|%s|' "$1" "$BYTES"; cat; echo oops >&2`, "sh", "\xfd ")
	fmt.Fprint(p.stdin, "from stdin")
	p.stdin.Close()
	out, err := io.ReadAll(p.out)
	if want := "\xfd |\xff\xfe|from stdin"; err != nil || string(out) != want {
		t.Errorf("stdout %q, %v; want %q", out, err, want)
	}
	if code, got := p.wait(), p.stderr.String(); code != 0 || got != "oops\n" {
		t.Errorf("status %d, stderr %q", code, got)
	}
}

func TestSignalsReachCommand(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			p := u.start("run", "a", "--", "sh", "-c",
				fmt.Sprintf(`trap 'echo caught; exit 9' %d; echo ready; while :; do sleep 1000 & wait; done`, int(s)))
			p.line()
			p.signal(s)
			if got := p.line(); got != "caught" {
				t.Errorf("CMD said %q", got)
			}
			if got := p.wait(); got != 9 {
				t.Errorf("status %d, want 9", got)
			}
			// A shell may lose an interrupt that comes while it starts a program, so CMD is none.
			p = u.start("run", "a", "--", "cat")
			fmt.Fprintln(p.stdin, "ready")
			p.line()
			p.signal(s)
			if got, want := p.wait(), 128+int(s); got != want {
				t.Errorf("status %d, want %d: CMD died of it", got, want)
			}
		})
	}
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	u := newAccount(t)
	p := u.launch(u.command("nohup", binary, "run", "a", "--", "sh", "-c", "echo ready; cat >/dev/null; exit 5"))
	p.line()
	p.signal(syscall.SIGHUP)
	p.stdin.Close()
	if got := p.wait(); got != 5 {
		t.Errorf("status %d, want 5: %s", got, p.stderr)
	}
}

func TestSignalWhileWaiting(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			u := newAccount(t)
			holder := u.start(with("a", idle)...)
			holder.line()
			waiter := u.start(with("a", idle)...)
			until(t, "the waiter is in the queue", func() bool { return len(u.show("a").Claims) == 2 })
			waiter.signal(s)
			if got, want := waiter.wait(), 128+int(s); got != want {
				t.Errorf("status %d, want %d", got, want)
			}
			if got := u.show("a").Claims; len(got) != 1 {
				t.Errorf("%d claims stand, want 1", len(got))
			}
		})
	}
}

func TestReadersShare(t *testing.T) {
	u := newAccount(t)
	u.start(with("a", idle, "--read")...).line()
	u.start(with("a", idle, "--read")...).line()
	if got := u.run("run", "a", "--try", "--", "true").code; got != 75 {
		t.Errorf("a writer beside readers: status %d, want 75", got)
	}
}

func TestPermits(t *testing.T) {
	u := newAccount(t)
	u.start(with("a", idle, "--permits", "2", "--of", "3")...).line()
	if got := u.run("run", "a", "--try", "--permits", "2", "--of", "3", "--", "true").code; got != 75 {
		t.Errorf("2 more of 3: status %d, want 75", got)
	}
	u.must("run", "a", "--try", "--of", "3", "--", "true")
	if r := u.run("run", "a", "--of", "5", "--", "true"); r.code != 64 || !strings.Contains(r.err, "exists with 3, asked for 5") {
		t.Errorf("status %d, %s", r.code, r.err)
	}
}

// What CMD leaves running in its group cannot stay: the lock passes on.
func TestLeftoversAreEnded(t *testing.T) {
	u := newAccount(t)
	p := u.start("run", "a", "--grace", "100ms", "--", "sh", "-c", `sh -c 'trap "" TERM; echo $$; exec sleep 1000' & read x; exit 3`)
	left := p.pid()
	if demotest.Dead(left) {
		t.Fatal("CMD's child has ended too early")
	}
	fmt.Fprintln(p.stdin, "go")
	if got := p.wait(); got != 3 || !demotest.Dead(left) {
		t.Errorf("status %d, want 3; what was left is gone: %v", got, demotest.Dead(left))
	}
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	p, pids := u.family("a", "--max-hold", "8s", "--grace", "200ms")
	if got := p.wait(); got != 79 || !strings.Contains(p.stderr.String(), "held for as long as --max-hold allows") {
		t.Errorf("status %d, %s", got, p.stderr)
	}
	for _, pid := range pids {
		if !demotest.Dead(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if got := u.show("a").Claims; len(got) != 0 {
		t.Errorf("the lock is still taken: %+v", got)
	}
}

// CMD has all of --max-hold to itself, and then --grace to end.
func TestMaxHoldIsNotCutShort(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second
	u := newAccount(t)
	begin := time.Now()
	p := u.start("run", "a", "--max-hold", most.String(), "--grace", "5s", "--", "bash", "-c", `trap 'sleep 0.3; echo saved; exit 3' TERM; while :; do sleep 0.05; done`)
	if got := p.line(); got != "saved" {
		t.Errorf("CMD said %q", got)
	}
	if took := time.Since(begin); took < most {
		t.Errorf("CMD was told to end after %v; want it to have %v", took, most)
	}
	if got := p.wait(); got != 79 || !strings.Contains(p.stderr.String(), "held for as long as --max-hold allows") {
		t.Errorf("status %d, %s", got, p.stderr)
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	const least = 8 * time.Second
	begin := time.Now()
	u.must("run", "a", "--at-least", least.String(), "--", "true")
	if claims := u.show("a").Claims; len(claims) != 1 || claims[0].State != "released" {
		t.Errorf("the claim does not stay: %+v", claims)
	}
	u.must("run", "a", "--", "true")
	if took := time.Since(begin); took < least {
		t.Errorf("the next had it after %v", took)
	}
}

// A store that would not keep the lock long enough after stile has ended is refused before CMD runs.
func TestAtLeastWhereItCannotStay(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	nodes := []string{servertest.Redis(t).Addr, servertest.Redis(t).Addr, servertest.Redis(t).Addr}
	for _, store := range []struct{ url, want string }{
		{"redlock://" + strings.Join(nodes, ","), "stile: --at-least 5m0s is too long: redlock keeps the lock of a process that has ended for 1m0s at most"},
		{
			"postgres://postgres@" + servertest.Postgres(t).Addr + "/postgres?mode=session",
			"stile: --at-least: in postgres session a lock ends with the process that took it",
		},
	} {
		got := u.run("--url", store.url, "run", "a", "--at-least", "5m", "--", "echo", "ran")
		if got.code != exit.BadUsage || got.out != "" || !strings.Contains(got.err, store.want) {
			t.Errorf("%s: status %d, %q, %s; want %d, %s", store.url, got.code, got.out, got.err, exit.BadUsage, store.want)
		}
	}
}

// The longest duration there is counts as no limit: it ends CMD no earlier than a shorter one.
func TestMaxHoldForEver(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("run", "a", "--max-hold", time.Duration(math.MaxInt64).String(), "--", "true")
}

// The read-modify-write of a file, by eight loops at once.
func TestCounter(t *testing.T) {
	const loops, rounds = 8, 25
	for _, store := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"sqlite", func(*testing.T) string { return "" }},
		{"redis", func(t *testing.T) string { return "redis://" + servertest.Redis(t).Addr }},
	} {
		t.Run(store.name, func(t *testing.T) {
			u := newAccount(t)
			if url := store.url(t); url != "" {
				u.at(url)
			}
			file := filepath.Join(u.home, "n")
			if err := os.WriteFile(file, []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range loops {
				wg.Go(func() {
					for range rounds {
						if r := u.run("run", "counter", "--", "sh", "-c", "n=$(cat n); echo $((n+1)) > n"); r.code != 0 {
							t.Errorf("status %d, %s", r.code, r.err)
							return
						}
					}
				})
			}
			wg.Wait()
			text, err := os.ReadFile(file)
			if got, want := strings.TrimSpace(string(text)), strconv.Itoa(loops*rounds); err != nil || got != want {
				t.Errorf("counted to %s, want %s: %v", got, want, err)
			}
		})
	}
}

// A name may begin with -, between two --. A CMD without -- before it gets a hint, also if a flag of its own is met first.
func TestDashes(t *testing.T) {
	u := newAccount(t)
	if got := u.must("run", "--", "-x", "--", "sh", "-c", `echo "$STILE_NAME"`); got != "-x\n" {
		t.Errorf("got %q; want the name -x", got)
	}
	for _, args := range [][]string{{"run", "x", "ls", "-l"}, {"run", "x", "ls"}, {"elect", "x", "ls", "-l"}} {
		if got := u.run(args...); got.code != exit.BadUsage || !strings.Contains(got.err, "-- ") {
			t.Errorf("%v: status %d, %s; want a hint of --", args, got.code, got.err)
		}
	}
	for _, args := range [][]string{{"run", "--", "ls"}, {"run", "--", "-x", "--"}, {"run", "--", "--", "ls"}} {
		if got := u.run(args...); got.code != exit.BadUsage {
			t.Errorf("%v: status %d, %s; want %d", args, got.code, got.err, exit.BadUsage)
		}
	}
}
