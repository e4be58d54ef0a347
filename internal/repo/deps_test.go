package repo

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/stile.deps and docs/evidence/faults.md anew")

// TestCommandDependencies holds the modules that the command links to the list that was last agreed on, so that a new
// one is seen in review. The platform is fixed: a golden file must not depend on the machine.
func TestCommandDependencies(t *testing.T) {
	golden := filepath.Join("testdata", "stile.deps")
	out := run(t, []string{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0"},
		"go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/stile")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line) // a module of the workspace has no version
	}
	slices.Sort(lines)
	got := strings.Join(slices.DeleteFunc(slices.Compact(lines), func(line string) bool { return line == "" }), "\n") + "\n"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the command links\n%s\n%s has\n%s\nif that is meant: go test ./internal/repo -update", got, golden, want)
	}
}
