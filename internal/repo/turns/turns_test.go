package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func names(list []choice) string {
	var names []string
	for _, p := range list {
		names = append(names, p.name)
	}
	return strings.Join(names, " ")
}

func TestChoose(t *testing.T) {
	three := []part{
		{"long", 300 * time.Second, []string{"proof/interop/", "store/redis/"}},
		{"middle", 175 * time.Second, []string{"internal/engine/"}},
		{"short", 60 * time.Second, []string{"internal/repo/release/", "go.mod"}},
	}
	for _, tt := range []struct {
		name         string
		turn         int
		files        []string
		budget       time.Duration
		chosen, left string
	}{
		{"turn of the long", 0, nil, 300 * time.Second, "long", "middle short"},
		{"turn of the middle", 1, []string{"README.md"}, 300 * time.Second, "middle short", "long"},
		{"turn of the short", 5, nil, 300 * time.Second, "short middle", "long"},
		{"touched first", 1, []string{"lock.go", "store/redis/queue.go"}, 300 * time.Second, "long", "middle short"},
		{"touched, and time left", 0, []string{"internal/engine/engine.go"}, 300 * time.Second, "middle short", "long"},
		{"two touched, the turn decides", 2, []string{"store/redis/a.go", "store/redis/go.mod"}, 300 * time.Second, "short middle", "long"},
		{"a file of any folder", 0, []string{"store/etcd/go.mod"}, 60 * time.Second, "short", "long middle"},
		{"not part of a name", 1, []string{"store/redisx/a.go", "old/store/redis/a.go"}, 300 * time.Second, "middle short", "long"},
		{"one whatever it takes", 0, nil, time.Second, "long", "middle short"},
		{"all", 0, nil, time.Hour, "long middle short", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chosen, left := choose(three, &change{turn: tt.turn, files: tt.files}, tt.budget)
			if names(chosen) != tt.chosen || names(left) != tt.left {
				t.Errorf("chose %q and left %q, want %q and %q", names(chosen), names(left), tt.chosen, tt.left)
			}
		})
	}
}

// Without a change that touches one, each part has a turn within as many commits as there are parts.
func TestEachHasATurn(t *testing.T) {
	seen := map[string]bool{}
	for turn := range parts {
		chosen, _ := choose(parts, &change{turn: turn}, 5*time.Minute)
		for _, p := range chosen {
			seen[p.name] = true
		}
	}
	if len(seen) != len(parts) {
		t.Errorf("of %d parts only these have a turn: %v", len(parts), seen)
	}
}

// What the parts are said to belong to is there, and so are their targets.
func TestPartsAreThere(t *testing.T) {
	const root = "../../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if !strings.Contains(string(makefile), "\n"+p.name+":") {
			t.Errorf("the Makefile has no target %s", p.name)
		}
		for _, pattern := range p.touched {
			if _, err := os.Stat(filepath.Join(root, pattern)); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

// repository makes a repository with a file in each commit, a branch of two, and uncommitted changes.
func repository(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	run(t, "init", "--quiet", "--initial-branch=main")
	run(t, "config", "user.name", "a")
	run(t, "config", "user.email", "a@example.test")
	for _, name := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		commit(t, name)
	}
}

func commit(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "add", name)
	run(t, "commit", "--quiet", "-m", name)
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := git(args...); err != nil {
		t.Fatal(err, out)
	}
}

func TestLook(t *testing.T) {
	for _, tt := range []struct {
		name     string
		make     func(t *testing.T)
		base     string
		files    string
		of, by   string
		failsFor string
	}{
		{"main", func(*testing.T) {}, "", "3 4 5 6 7", "the last commits, 5 in number", "commit 7", ""},
		{"branch", func(t *testing.T) { run(t, "switch", "-q", "-c", "b"); commit(t, "a"); commit(t, "b") }, "", "a b",
			"since main", "commit 9", ""},
		{"base", func(*testing.T) {}, "HEAD~1", "7", "since BASE=HEAD~1", "commit 7", ""},
		{"no such base", func(*testing.T) {}, "other", "", "", "", "BASE=other"},
		{"uncommitted", func(t *testing.T) {
			if err := os.WriteFile("new", nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "HEAD", "new", "since BASE=HEAD", "commit 7", ""},
		{"shallow", func(t *testing.T) { clone(t, "1") }, "", "", "unknown, since the clone has one commit", "the hash", ""},
		{"shallow, with more", func(t *testing.T) { clone(t, "3") }, "", "6 7", "the last commits, 2 in number", "the hash", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repository(t)
			tt.make(t)
			c, err := changeSince(tt.base)
			if tt.failsFor != "" {
				if err == nil || !strings.Contains(err.Error(), tt.failsFor) {
					t.Errorf("got %v, want an error that names %s", err, tt.failsFor)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.files, " "); got != tt.files || !strings.Contains(c.of, tt.of) || !strings.Contains(c.by, tt.by) {
				t.Errorf("files %q of %q by %q, want %q of %q by %q", got, c.of, c.by, tt.files, tt.of, tt.by)
			}
		})
	}
}

// clone goes to a shallow clone of the repository.
func clone(t *testing.T, depth string) {
	t.Helper()
	from, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	run(t, "clone", "--quiet", "--depth", depth, "file://"+from, to)
	t.Chdir(to)
}
