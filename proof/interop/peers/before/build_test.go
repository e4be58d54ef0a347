//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/proof/internal/earlier"
)

// place is the folder of this package.
const place = "proof/interop/peers/before"

// A revision is an earlier version that this tree meets, with its limits.
type revision struct {
	commit  string
	reads   bool     // the revision reads all data of this tree; otherwise it may fail while the data is there
	changed []string // the stores whose tables this tree changes; the revision refuses the changed ones
	lacks   []string // the stores that the revision does not have
}

// revisions are the earlier versions, the earliest first.
var revisions = []revision{
	// The last revision before the layouts in Redis and the tables in PostgreSQL, MySQL and SQLite changed.
	{commit: "93f5926eb37523b6db9b9ab65aeb651f82eed9aa", changed: []string{"sqlite"},
		lacks: []string{"zookeeper latch", "zookeeper semaphore", "mysql session"}},
	// The last revision before waiters outlast the store's loss of their claims, before a break alerts its claim's client,
	// and before the stores moved into store.
	{commit: "8c845d5c846ec954ddd8d524e32f100904288a85", reads: true},
}

func (r revision) String() string { return r.commit[:7] }

// A version is the program of this package, built in one revision of stile.
type version struct {
	revision
	name, program string
}

// top returns the root of this tree, after a check that the clone has the revisions.
func top(t *testing.T) string {
	t.Helper()
	root := strings.TrimSpace(command(t, "git", "rev-parse", "--show-toplevel"))
	for _, r := range revisions {
		if err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", r.commit+"^{commit}").Run(); err != nil {
			t.Fatalf("revision %s is not in this clone, which is shallow or of another repository: git fetch --unshallow "+
				"gets a shallow clone the rest (git cat-file: %v)", r, err)
		}
	}
	return root
}

// build builds the program in this tree and in the revisions, one after the other, so that Go compiles a shared library
// once. The flags are the flags of make build, which has compiled most packages.
func build(t *testing.T, root string) (before []version, now version) {
	t.Helper()
	dir := t.TempDir()
	made := func(r revision, name, tree string) version {
		v := version{r, name, filepath.Join(dir, name)}
		command(t, "go", "build", "-C", tree, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-tags", "grpcnotrace,",
			"-o", v.program, "./"+earlier.Path(tree, place))
		return v
	}
	now = made(revision{}, "now", root)
	for _, r := range revisions {
		before = append(before, made(r, r.String(), unpack(t, root, r, filepath.Join(dir, "tree-"+r.String()))))
	}
	return before, now
}

// unpack writes the tree of a revision into a folder, adds this package, and returns the folder.
func unpack(t *testing.T, root string, r revision, old string) string {
	t.Helper()
	packed := old + ".tar"
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "git", "-C", root, "archive", "-o", packed, r.commit)
	command(t, "tar", "-C", old, "-xf", packed)
	into := filepath.Join(old, filepath.FromSlash(earlier.Path(old, place)))
	text, err := os.ReadFile("main.go")
	if err == nil {
		err = os.MkdirAll(into, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(into, "main.go"), []byte(earlier.Fit(old, string(text))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return old
}

// command runs a program of the machine and returns its output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}
