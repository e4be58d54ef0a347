package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
)

// A command that only looks makes no store, so that a mistyped path is an error and no empty list.
func TestLookingMakesNothing(t *testing.T) {
	u := newAccount(t)
	missing := filepath.Join(u.home, "misspelt", "locks.db")
	for _, args := range [][]string{
		{"ls"}, {"ls", "--json"}, {"show", "x"}, {"show", "x", "--json"}, {"watch", "x"}, {"watch", "x", "--json"},
		{"break", "x", "--reason", "test", "--yes"},
	} {
		r := u.run(append([]string{"--url", "sqlite://" + missing + "?busy=1s"}, args...)...)
		if r.code != exit.BadUsage || r.out != "" || !strings.Contains(r.err, missing) || !strings.Contains(r.err, "does not exist") {
			t.Errorf("stile %q with a missing file: status %d, %q, %q; want %d and the path", args, r.code, r.out, r.err, exit.BadUsage)
		}
	}
	if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the missing file: %v; want it missing yet", err)
	}
}

// Nor does it make the files that several stores are.
func TestLookingAtShardsMakesNothing(t *testing.T) {
	u := newAccount(t)
	dir := filepath.Join(u.home, "shards")
	text := "one=sqlite://" + dir + "/1.db\ntwo=sqlite://" + dir + "/2.db?busy=1s\n"
	list := filepath.Join(u.home, "stores")
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	urls := []string{"shard://" + list, "shard://?stores=" + strings.ReplaceAll(strings.TrimSpace(text), "\n", ";")}
	for _, url := range urls {
		for _, args := range [][]string{{"ls"}, {"show", "x"}, {"watch", "x"}, {"break", "x", "--reason", "test", "--yes"}} {
			r := u.run(append([]string{"--url", url}, args...)...)
			if r.code != exit.BadUsage || r.out != "" || !strings.Contains(r.err, dir) || !strings.Contains(r.err, "does not exist") {
				t.Fatalf("stile --url %s %q with missing files: status %d, %q, %q; want %d and a path", url, args, r.code, r.out, r.err, exit.BadUsage)
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the missing files: %v; want it missing yet", err)
	}
	for _, url := range urls {
		u.lock("x", "--url", url)
		if got := u.must("--url", url, "ls"); !strings.Contains(got, "x") {
			t.Errorf("ls with --url %s says %q; want x", url, got)
		}
		u.must("--url", url, "unlock", "x")
	}
}

// The default store is not mistyped: nobody has taken a lock yet.
func TestLookingAtNoDefaultStore(t *testing.T) {
	u := newAccount(t)
	for _, tt := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"ls"}, 0, "no names are in use\n"},
		{[]string{"ls", "--json"}, 0, "[]\n"},
		{[]string{"show", "x"}, 0, "x is free: nobody holds it or waits for it\n"},
		{[]string{"break", "x", "--reason", "test", "--yes"}, exit.BadUsage, ""},
		{[]string{"__complete", "show", ""}, 0, ":4\n"},
	} {
		if r := u.run(tt.args...); r.code != tt.code || r.out != tt.out {
			t.Errorf("stile %q: status %d, %q, %q; want %d, %q", tt.args, r.code, r.out, r.err, tt.code, tt.out)
		}
	}
	w := u.start("watch", "x", "--json")
	if line := w.line(); !strings.Contains(line, `"claims":[]`) {
		t.Errorf("stile watch shows %s; want no claims", line)
	}
	if _, err := os.Stat(filepath.Join(u.home, "state")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the default store: %v; want it missing yet", err)
	}
	// A watch sees the first lock that is ever taken.
	u.must("lock", "x")
	until(t, "the watch shows the holder", func() bool { return strings.Contains(w.line(), `"state":"holds"`) })
}
