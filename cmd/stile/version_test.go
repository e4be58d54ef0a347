package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	u := newAccount(t)
	if flag, verb := u.must("--version"), u.must("version"); flag != verb || !strings.HasPrefix(verb, "stile ") {
		t.Errorf("--version prints %q, and version %q", flag, verb)
	}
	if help, verb := u.must("help", "run"), u.must("run", "--help"); help != verb || !strings.Contains(verb, "stile run NAME") {
		t.Errorf("help run prints\n%s, and run --help\n%s", help, verb)
	}
}

// A home directory by a relative path is another one in another directory.
func TestRelativeHome(t *testing.T) {
	u := newAccount(t)
	u.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=home"}
	for _, args := range [][]string{{"run", "a", "--", "true"}, {"lock", "a"}, {"ls"}} {
		if got := u.run(args...); got.code != 64 || !strings.Contains(got.err, `the home directory "home" is not an absolute path`) {
			t.Errorf("%v: status %d, %s%s; want 64", args, got.code, got.out, got.err)
		}
	}
	if _, err := os.Stat(filepath.Join(u.home, "home")); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
}
