package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("text"), strings.Repeat("this is no database\n", 300))
	write(t, at("short"), "no database")
	damaged := raw(t, at("damaged"))
	mustExec(t, damaged, "CREATE TABLE a (b)")
	mustExec(t, damaged, "PRAGMA user_version = 7")
	if err := damaged.Close(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(at("damaged"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < 400; i++ {
		page[i] = 0xff
	}
	write(t, at("damaged"), string(page))
	open(t, at("linked")).Close()
	if err := os.Link(at("linked"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, at("newer")).Close()
	mustExec(t, raw(t, at("newer")), "UPDATE stile_meta SET version = 99")
	mustExec(t, raw(t, at("foreign")), "CREATE TABLE stile_meta (something TEXT)")
	open(t, at("clock")).Close()
	mustExec(t, raw(t, at("clock")), "UPDATE stile_meta SET boot = ''")

	tests := []struct {
		path  string
		parts []string
	}{
		{"", []string{"path", "empty"}},
		{":memory:", []string{":memory:", "memory://"}},
		{"a\x00b", []string{"zero byte"}},
		{dir, []string{dir, "is a directory"}},
		{at("pipe"), []string{at("pipe"), "not a regular file"}},
		{at("link"), []string{at("link"), "hard link"}},
		{at("text"), []string{at("text"), "is not an SQLite database"}},
		{at("short"), []string{at("short"), "is not an SQLite database"}},
		{at("damaged"), []string{at("damaged"), "is damaged"}},
		{at("text") + "/locks.db", []string{at("text") + "/locks.db", "directory", "cannot be made"}},
		{"/proc/stile/locks.db", []string{"/proc/stile/locks.db", "cannot be made"}},
		{"/proc/locks.db", []string{"/proc/locks.db", "cannot be made"}},
		{at("newer"), []string{at("newer"), "newer stile", "99", "2"}},
		{at("foreign"), []string{at("foreign"), "stile_meta", "not make"}},
		{at("clock"), []string{at("clock"), "another clock"}},
	}
	for _, tt := range tests {
		d, err := Open(t.Context(), tt.path, nil)
		says(t, "open "+tt.path, err, tt.parts...)
		if err == nil {
			d.Close()
		} else if !driver.NotApplied(err) {
			t.Errorf("open %s = %v; want a definite error", tt.path, err)
		}
	}
	if _, err := Open(t.Context(), at("foreign"), nil); !errors.Is(err, driver.ErrForeign) {
		t.Errorf("open of a foreign table = %v; want %v", err, driver.ErrForeign)
	}
}

func TestOpenTakesEveryPath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"plain", "a b", "a?mode=memory", "?", "a#b", "100%", "%41", "a'b", `a"b`, "é🔒", "a;b", "a&b=c", "new/er/locks.db", ":memory:x", "-a", "file:x",
	} {
		path := filepath.Join(dir, name)
		d := open(t, path)
		enter(t, d, claim("x", time.Second), true)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("open %q: %v", path, err)
		}
	}
}

func TestOpenKeepsOthersOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "locks.db")
	d := open(t, path)
	enter(t, d, claim("x", time.Second), true)
	for path, want := range map[string]os.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o; want %o", path, got, want)
		}
	}
}

func TestDefaultPath(t *testing.T) {
	tests := []struct{ state, home, want string }{
		{"/state", "/users/ann", "/state/stile/locks.db"},
		{"", "/users/ann", "/users/ann/.local/state/stile/locks.db"},
		{"relative", "/users/ann", "/users/ann/.local/state/stile/locks.db"},
		{"/state", "", "/state/stile/locks.db"},
		{"", "", ""},
	}
	for _, tt := range tests {
		t.Setenv("XDG_STATE_HOME", tt.state)
		t.Setenv("HOME", tt.home)
		got, err := DefaultPath()
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("with XDG_STATE_HOME=%q and HOME=%q, DefaultPath() = %q, %v; want %q", tt.state, tt.home, got, err, tt.want)
		}
	}
}

func TestURL(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	path := lockFile(t)
	tests := []struct {
		url, file string
		parts     []string // of the error, if file is empty
	}{
		{url: "sqlite://" + path, file: path},
		{url: "sqlite://" + path + "%3Fx%20y?prefix=a_&busy=2s", file: path + "?x y"},
		{url: "sqlite://", file: filepath.Join(state, "stile", "locks.db")},
		{url: "sqlite:///", parts: []string{"names no file", "sqlite:///path/locks.db", "sqlite:// for the default"}},
		{url: "sqlite:///?busy=2s", parts: []string{"names no file"}},
		{url: "sqlite://locks.db", parts: []string{"three slashes"}},
		{url: "sqlite://ann:secret@host/locks.db", parts: []string{"three slashes"}},
		{url: "sqlite://" + path + "?mode=memory", parts: []string{`"mode"`, "busy", "prefix"}},
		{url: "sqlite://" + path + "?busy=5", parts: []string{"busy", "10s"}},
		{url: "sqlite://" + path + "?prefix=a%22b", parts: []string{"prefix", "letters"}},
		{url: "sqlite://" + path + "?prefix=1a", parts: []string{"prefix", "digit"}},
	}
	for _, tt := range tests {
		d, err := driver.Open(t.Context(), tt.url)
		if tt.file == "" {
			says(t, "open "+tt.url, err, tt.parts...)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("open %s = %v; want no password", tt.url, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("open %s: %v", tt.url, err)
			continue
		}
		d.Close()
		if _, err := os.Stat(tt.file); err != nil {
			t.Errorf("open %s: %v", tt.url, err)
		}
	}
}

// A symbolic link leads to the same file and the same log.
func TestSymbolicLink(t *testing.T) {
	path := lockFile(t)
	link := lockFile(t)
	d := open(t, path)
	enter(t, d, claim("x", time.Minute), true)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	enter(t, open(t, link), claim("x", time.Minute), false)
}
