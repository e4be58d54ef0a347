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

// revision is the earlier version that this tree meets: the last one before the layouts in Redis and the tables in
// PostgreSQL, MySQL and SQLite changed.
const revision = "93f5926eb37523b6db9b9ab65aeb651f82eed9aa"

// A version is the program of this package as one revision of stile has it.
type version struct{ name, program string }

// build builds the program in both revisions. The flags are those of make build, so that Go compiles the libraries once.
func build(t *testing.T) (before, now version) {
	t.Helper()
	dir := t.TempDir()
	root := strings.TrimSpace(command(t, "git", "rev-parse", "--show-toplevel"))
	if exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", revision+"^{commit}").Run() != nil {
		t.Fatalf("revision %.7s is not in this clone, which is shallow or of another repository: git fetch --unshallow "+
			"gets a shallow clone the rest", revision)
	}
	old, packed := filepath.Join(dir, "tree"), filepath.Join(dir, "tree.tar")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "git", "-C", root, "archive", "-o", packed, revision)
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
	made := func(name, tree string) version {
		v := version{name, filepath.Join(dir, name)}
		command(t, "go", "build", "-C", tree, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-tags", "grpcnotrace,",
			"-o", v.program, "./"+earlier.Path(tree, place))
		return v
	}
	return made("before", old), made("now", root)
}

// command runs a program of the machine and returns what it prints.
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
