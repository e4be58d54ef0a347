package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// TestNoTokenWithoutFencing sees that a store without fencing hands out no token, and that its grants are known by their
// tickets.
func TestNoTokenWithoutFencing(t *testing.T) {
	u := newAccount(t).at("memcached://" + servertest.Memcached(t).Addr)
	if got := u.must("run", "a", "--", "sh", "-c", `echo "<$STILE_TOKEN>"`); got != "<>\n" {
		t.Errorf("CMD has the token %s; want none", got)
	}
	if got := u.must("lock", "b", "--json"); !strings.Contains(got, `"token":null`) {
		t.Errorf("stile lock says %s; want no token", got)
	}
	out := u.must("lock", "a")
	ticket := regexp.MustCompile(`(?m)^token=\nticket=(\d+)$`).FindStringSubmatch(out)
	if ticket == nil {
		t.Fatalf("stile lock says %s; want no token, and a ticket", out)
	}
	if got := u.must("renew", "a", "--token", ticket[1]); !strings.HasPrefix(got, "token=\nticket="+ticket[1]+"\n") {
		t.Errorf("stile renew says %s; want no token, and the same ticket", got)
	}
	u.must("unlock", "a", "--token", ticket[1])
}

// shell runs a script with $stile as the command, and returns what it prints, and its status.
func (u *account) shell(script string) result {
	u.t.Helper()
	cmd := u.command("bash", "-c", script)
	cmd.Env = append(cmd.Env, "stile="+binary)
	p := u.launch(cmd)
	p.stdin.Close()
	var out strings.Builder
	if _, err := p.out.WriteTo(&out); err != nil {
		u.t.Fatal(err)
	}
	return result{p.wait(), out.String(), p.stderr.String()}
}

// A script that lost its lock frees nobody else's, in whichever way it names its own.
func TestUnlockLeavesTheNextHolderAlone(t *testing.T) {
	for _, how := range []string{"variable", "token", "handle", "own handle"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			u := newAccount(t)
			file := filepath.Join(u.home, "file")
			var own []string
			if how == "own handle" {
				own = []string{"--handle", file}
			}
			slow := newAccount(t)
			slow.env, slow.home = append([]string(nil), u.env...), u.home // the same user in another shell
			locked := slow.lock(append([]string{"a", "--ttl", "4s"}, own...)...)
			u.must("run", "a", "--wait", "1m", "--", "true") // the slow one has lost it
			if own != nil {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			next := u.lock(append([]string{"a", "--ttl", "1m"}, own...)...)
			args := map[string][]string{
				"variable": {"a"}, "token": {"a", "--token", field(t, locked, "token")},
				"handle": {"--handle", field(t, locked, "handle")}, "own handle": {"--handle", file},
			}[how]
			for _, verb := range []string{"renew", "unlock", "unlock"} {
				if got := slow.run(append([]string{verb}, args...)...); got.code != 79 || got.out != "" {
					t.Errorf("%s: status %d, %q, %s; want 79 and no answer", verb, got.code, got.out, got.err)
				}
			}
			if claims := u.show("a").Claims; len(claims) != 1 || claims[0].Ticket != field(t, next, "token") {
				t.Errorf("claims %+v; want the next holder's, untouched", claims)
			}
			if _, err := os.Stat(field(t, next, "handle")); err != nil {
				t.Errorf("the next holder's handle: %v", err)
			}
			u.must("unlock", "a")
		})
	}
}

// By name alone nothing is renewed or released: the message lists what the user has.
func TestNameIsNoGrant(t *testing.T) {
	u := newAccount(t)
	token := field(t, u.must("lock", "a", "--json"), "token")
	for _, verb := range []string{"renew", "unlock"} {
		got := u.run(verb, "a")
		if got.code != 64 || !strings.Contains(got.err, "yours is --token "+token+" (renewed ") {
			t.Errorf("%s: status %d, %s; want 64 and the grant", verb, got.code, got.err)
		}
		if got := u.run(verb, "b"); got.code != 64 || !strings.Contains(got.err, "you have no grant of it in sqlite://") {
			t.Errorf("%s: status %d, %s; want 64", verb, got.code, got.err)
		}
	}
	if n := len(u.show("a").Claims); n != 1 {
		t.Fatalf("%d claims; want the one", n)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"unlock", "a", "--token", ""}, 64, "stile: --token is empty"},
		{[]string{"unlock", "--handle", ""}, 64, "stile: --handle is empty"},
		{[]string{"unlock", "a", "--token", token, "--handle", "x"}, 64, "stile: --handle names a grant, and so does --token"},
		{[]string{"unlock", "--token", token}, 64, "stile: stile unlock needs NAME or --handle FILE"},
		{[]string{"unlock", "a", "--token", "7"}, 79, `stile: "a" has no grant of yours with token 7`},
		{[]string{"renew", "b", "--token", token}, 79, `stile: "b" has no grant of yours with token ` + token},
		{[]string{"unlock", ""}, 64, `stile: NAME "": the name is empty`},
	} {
		if got := u.run(tt.args...); got.code != tt.code || !strings.HasPrefix(got.err, tt.want) {
			t.Errorf("%q: status %d, %s; want %d, %s", tt.args, got.code, got.err, tt.code, tt.want)
		}
	}
	_, rest, _ := strings.Cut(u.run("unlock", "a").err, "? ")
	variable, _, _ := strings.Cut(rest, " is not set")
	for _, value := range []string{"", "x", "@/x", token + "@"} {
		with := *u
		with.env = append(with.env, variable+"="+value)
		if got := with.run("unlock", "a"); got.code != 64 || !strings.Contains(got.err, fmt.Sprintf("is %q, which is not what stile lock printed", value)) {
			t.Errorf("variable %q: status %d, %s; want 64", value, got.code, got.err)
		}
	}
	u.must("unlock", "a", "--token", token)
}

// Locks of one script, of readers and of permits, and of one script in another, do not disturb each other.
func TestGrantsOfOneUser(t *testing.T) {
	u := newAccount(t)
	got := u.shell(`set -e
		one=$("$stile" lock one); eval "$one"
		two=$("$stile" lock two); eval "$two"
		"$stile" run three -- bash -ec 'one=$("$stile" lock "one of CMD"); eval "$one"; "$stile" unlock "one of CMD"'
		"$stile" renew one >/dev/null
		"$stile" unlock two
		"$stile" unlock one
		read1=$("$stile" lock shared --read); eval "$read1"; token1=$token
		read2=$("$stile" lock shared --read); eval "$read2"
		"$stile" unlock shared
		"$stile" unlock shared --token "$token1"
		permit1=$("$stile" lock some --permits 1 --of 2); eval "$permit1"; token1=$token
		permit2=$("$stile" lock some --permits 1 --of 2); eval "$permit2"
		"$stile" unlock some --token "$token1"
		"$stile" unlock some
		"$stile" ls --json`)
	if got.code != 0 || strings.TrimSpace(got.out) != "[]" {
		t.Errorf("status %d, %s, %s; want no locks left", got.code, got.out, got.err)
	}
	if left, err := os.ReadDir(filepath.Join(u.home, "run", "stile")); err != nil || len(left) != 0 {
		t.Errorf("handles left: %v, %v", left, err)
	}
}

// A lock that nobody hears of is not left taken.
func TestAnswerThatCannotBeWritten(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		code         int
		want         string
	}{
		{"full", `"$stile" lock a >/dev/full`, 74, "stile: the answer cannot be written, so the lock was released: "},
		{"closed", `"$stile" lock a >&-`, 64, "stile: stdout is closed, or /dev/null as daemons have it, so nobody would hear of the lock"},
		{"of a daemon", `"$stile" lock a 1<>/dev/null`, 64, "stile: stdout is closed, or /dev/null as daemons have it, so nobody would hear"},
		{"no reader", `exec 3> >(:); wait $!; "$stile" lock a >&3`, 74, "stile: the answer cannot be written, so the lock was released: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newAccount(t)
			if got := u.shell(tt.script); got.code != tt.code || !strings.HasPrefix(got.err, tt.want) {
				t.Errorf("status %d, %s; want %d, %s", got.code, got.err, tt.code, tt.want)
			}
			if got := u.must("ls", "--json"); strings.TrimSpace(got) != "[]" {
				t.Errorf("left taken: %s", got)
			}
			if left, _ := os.ReadDir(filepath.Join(u.home, "run", "stile")); len(left) != 0 {
				t.Errorf("handles left: %v", left)
			}
		})
	}
	u := newAccount(t)
	if got := u.shell(`"$stile" lock a >/dev/null`); got.code != 0 {
		t.Errorf("status %d, %s; want 0: it was told to be silent", got.code, got.err)
	}
}

// Handles of locks that ran out long ago are cleared away, and no others.
func TestLostHandlesAreClearedAway(t *testing.T) {
	u := newAccount(t)
	lost := field(t, u.lock("lost", "--ttl", "4s"), "handle")
	held := field(t, u.lock("held", "--ttl", "1h"), "handle")
	old := time.Now().Add(-2 * time.Minute)
	for _, path := range []string{lost, held} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	u.lock("another")
	if _, err := os.Stat(lost); !os.IsNotExist(err) {
		t.Errorf("the lost lock's handle: %v; want it gone", err)
	}
	if got := u.run("unlock", "lost"); got.code != 79 || !strings.Contains(got.err, "it was lost and its handle cleared away") {
		t.Errorf("status %d, %s; want 79", got.code, got.err)
	}
	u.must("renew", "held")
	if info, err := os.Stat(held); err != nil || info.ModTime().Before(time.Now().Add(-time.Minute)) {
		t.Errorf("the held lock's handle: %v; want it fresh", err)
	}
	u.must("unlock", "held")
}

// Where a lock ends with its process, lock says so before it waits.
func TestLockWhereItCannotBeLeft(t *testing.T) {
	u := newAccount(t).at("zk://" + servertest.ZooKeeper(t).Addr)
	holder := u.start("run", "a", "--", "cat")
	until(t, "the lock is held", func() bool { return len(u.show("a").Claims) == 1 })
	if got := u.run("lock", "a"); got.code != 64 || !strings.Contains(got.err, "so stile lock cannot leave it taken: use stile run") {
		t.Errorf("status %d, %s; want 64 at once", got.code, got.err)
	}
	holder.stdin.Close()
	if code := holder.wait(); code != 0 {
		t.Errorf("the holder ended with %d", code)
	}
}

// The recipes of docs/command/lock.md do what they say, also when a step of theirs fails.
func TestRecipes(t *testing.T) {
	_, text, _ := strings.Cut(documents(t)["../../docs/command/lock.md"], "## Recipes\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := shellBlock.FindAllStringSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("there are %d recipes; want two", len(blocks))
	}
	for i, block := range blocks {
		recipe := strings.ReplaceAll(block[1], "stile ", `"$stile" `)
		for _, tt := range []struct {
			name, steps string
			code        int
		}{
			{"it works", "exit 0", 0},
			{"a step fails", "exit 3", 3},
		} {
			t.Run(fmt.Sprint(i, tt.name), func(t *testing.T) {
				u := newAccount(t)
				for _, step := range []string{"first-half", "second-half", "fill-cache"} {
					script := "#!/bin/sh\n" + binary + " ls --json >> " + u.home + "/seen\n" + tt.steps + "\n"
					if err := os.WriteFile(filepath.Join(u.home, step), []byte(script), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				if got := u.shell(recipe); got.code != tt.code {
					t.Errorf("status %d, %s; want %d", got.code, got.err, tt.code)
				}
				if seen, err := os.ReadFile(filepath.Join(u.home, "seen")); err != nil || !strings.Contains(string(seen), `"state": "holds"`) {
					t.Errorf("under the lock the steps saw %s, %v; want it held", seen, err)
				}
				if got := u.must("ls", "--json"); strings.TrimSpace(got) != "[]" {
					t.Errorf("left taken: %s", got)
				}
			})
		}
	}
	// Whoever comes second does not disturb the first.
	u := newAccount(t)
	u.lock("cache")
	if got := u.shell(strings.ReplaceAll(blocks[1][1], "stile ", `"$stile" `)); got.code != 0 || got.out != "" {
		t.Errorf("the second: status %d, %s%s; want 0 and nothing done", got.code, got.out, got.err)
	}
	u.must("unlock", "cache")
}
