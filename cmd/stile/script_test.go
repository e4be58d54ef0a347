package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// field returns one field of a JSON object.
func field(t *testing.T, text, key string) string {
	t.Helper()
	var object map[string]string
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return object[key]
}

// lock takes a lock, as a shell does that evaluates what it prints: the account's later calls know the grant.
func (u *account) lock(args ...string) (locked string) {
	u.t.Helper()
	locked = u.must(append([]string{"lock", "--json"}, args...)...)
	u.env = append(u.env, field(u.t, locked, "variable")+"="+field(u.t, locked, "grant"))
	return locked
}

func TestLockRenewUnlock(t *testing.T) {
	u := newAccount(t)
	file := filepath.Join(u.home, "with 'space")
	for _, flags := range [][]string{nil, {"--handle", file}} {
		args := func(verb string) []string { return append([]string{verb, "a/b c"}, flags...) }
		locked := u.lock(append(args("lock")[1:], "--ttl", "1m", "--owner", "me", "--reason", "why")...)
		path := field(t, locked, "handle")
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", path, info.Mode(), err)
		}
		if claims := u.show("a/b c").Claims; len(claims) != 1 || claims[0].Owner != "me" || claims[0].Reason != "why" || claims[0].Ticket != field(t, locked, "token") {
			t.Errorf("%+v", claims)
		}
		if got := u.run("run", "a/b c", "--", "true"); got.code != 64 || !strings.Contains(got.err, "this shell has the lock") {
			t.Errorf("in the shell that has it: status %d, want 64: %s", got.code, got.err)
		}
		other := *u
		other.env = u.env[:len(u.env)-1]
		if got := other.run("run", "a/b c", "--try", "--", "true").code; got != 75 {
			t.Errorf("while it is locked: status %d, want 75", got)
		}
		renewed := u.must(append(args("renew"), "--json")...)
		for _, key := range []string{"name", "token", "handle", "variable", "grant"} {
			if got, want := field(t, renewed, key), field(t, locked, key); got != want {
				t.Errorf("%s %s after renewal, want %s", key, got, want)
			}
		}
		first, second := when(t, locked), when(t, renewed)
		if !second.After(first) || time.Until(second) > time.Minute || time.Until(second) < 50*time.Second {
			t.Errorf("deadline %v after renewal, %v before", second, first)
		}
		u.must(args("unlock")...)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the handle is still there: %v", err)
		}
		if got := u.run(args("unlock")...); got.code != 79 {
			t.Errorf("unlocked twice: status %d, want 79: %s", got.code, got.err)
		}
		u.must("run", "a/b c", "--try", "--", "true")
	}
}

func when(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.Parse(time.RFC3339, field(t, text, "deadline"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A shell evaluates what lock prints.
func TestLockInAShell(t *testing.T) {
	u := newAccount(t)
	cmd := u.command("sh", "-eu", "-c", `
		eval "$("$0" lock nightly --handle "it's here")"
		echo "$token"; echo "$deadline"; cat "$handle" >/dev/null
		eval "$("$0" renew --handle "$handle")"
		"$0" unlock --handle "$handle"`, binary)
	out, err := cmd.Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%v: %q", err, out)
	}
	if _, err := time.Parse(time.RFC3339, lines[1]); err != nil {
		t.Error(err)
	}
}

func TestLostHandle(t *testing.T) {
	u := newAccount(t)
	for _, verb := range []string{"renew", "unlock"} {
		u.lock("a")
		u.must("break", "a", "--yes", "--reason", "test")
		if got := u.run(verb, "a"); got.code != 79 || !strings.HasPrefix(got.err, `stile: attach "a": the lease is lost: the store no longer has it`) {
			t.Errorf("%s: status %d, want 79: %s", verb, got.code, got.err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(u.home, "run", "stile")); err != nil || len(left) != 0 {
		t.Errorf("handles left: %v, %v; want none, so that the shell can lock again", left, err)
	}
}

// Nothing renews in the background.
func TestLockRunsOut(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	other := *u
	u.lock("a", "--ttl", "4s")
	other.must("run", "a", "--wait", "1m", "--", "true")
	if got := u.run("unlock", "a"); got.code != 79 {
		t.Errorf("status %d, want 79: %s", got.code, got.err)
	}
}

func TestHandleFiles(t *testing.T) {
	u := newAccount(t)
	mine, other := filepath.Join(u.home, "handle"), filepath.Join(u.home, "other")
	if err := os.WriteFile(other, []byte("a letter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.must("lock", "a", "--handle", mine)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"lock", "b", "--handle", mine}, "is the handle of another grant of \"a\": unlock it, or remove the file"},
		{[]string{"lock", "b", "--handle", other}, "there is such a file, and it is not a handle of stile lock; give another"},
		{[]string{"lock", "b", "--handle", mine + "/x"}, "is no folder that you can write into"},
		{[]string{"unlock", "b", "--handle", mine}, `is the handle of "a", not of "b"`},
		{[]string{"unlock", "--handle", other}, "it is not a handle of stile lock"},
		{[]string{"unlock", "--handle", mine, "--url", "sqlite:///elsewhere.db"}, "is for the store sqlite:///, but --url or STILE_URL says sqlite:///elsewhere.db"},
	} {
		if got := u.run(tt.args...); got.code != 64 || !strings.Contains(got.err, tt.want) {
			t.Errorf("%q: status %d, %s; want 64, %s", tt.args, got.code, got.err, tt.want)
		}
	}
	if got := u.must("ls"); !strings.Contains(got, "a ") || strings.Contains(got, "b ") {
		t.Errorf("a alone should be locked: %s", got)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "a letter\n" {
		t.Errorf("%q, %v", text, err)
	}
	// The script whose lock is gone may yet unlock it by this file, which therefore must not become another's.
	u.must("break", "a", "--yes", "--reason", "test")
	if got := u.run("lock", "b", "--handle", mine); got.code != 64 {
		t.Errorf("status %d, %s; want 64", got.code, got.err)
	}
	if got := u.run("unlock", "--handle", mine); got.code != 79 {
		t.Errorf("status %d, %s; want 79", got.code, got.err)
	}
	u.must("lock", "b", "--handle", mine)
	u.must("unlock", "b", "--handle", mine)
}

// Handles of different names are different files, whatever the names.
func TestDefaultHandles(t *testing.T) {
	u := newAccount(t)
	names := []string{"a", "A", "a/b", "a b", "..", ".", "a%2Fb", "ü", "'", "`$x`", "-x", strings.Repeat("é", 127), strings.Repeat("é", 126) + "ee"}
	paths := map[string]bool{}
	for _, name := range names {
		path := field(t, u.lock("--", name), "handle")
		if paths[path] || filepath.Dir(path) != filepath.Join(u.home, "run", "stile") {
			t.Errorf("%q: %s", name, path)
		}
		paths[path] = true
	}
	for _, name := range names {
		u.must("unlock", "--", name)
	}
	if left, err := os.ReadDir(filepath.Join(u.home, "run", "stile")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A script's lock outlives its process; the token is the one that a fence sees.
func TestLockKeepsToken(t *testing.T) {
	u := newAccount(t)
	first := field(t, u.lock("a"), "token")
	u.must("unlock", "a")
	second := field(t, u.lock("a"), "token")
	u.must("unlock", "a")
	if len(first) > len(second) || len(first) == len(second) && first >= second {
		t.Errorf("token %s after %s", second, first)
	}
}

// The process that stile lock names is the shell that has the lock, since its own is over.
func TestLockNamesTheShell(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	for _, shell := range []string{"sh", "bash"} {
		p := u.launch(u.command(shell, "-c", `claim=$("$0" lock a) || exit; eval "$claim"; echo $$; read x; "$0" unlock a`, binary))
		pid := p.pid()
		if claims := u.show("a").Claims; len(claims) != 1 || claims[0].PID != pid {
			t.Errorf("%s: the claim is %+v; want process %d", shell, claims, pid)
		}
		p.stdin.Close()
		p.wait()
	}
}
