package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	published = regexp.MustCompile(`(?m)^\tgithub\.com/stilelock/stile(\S*) v\S+ => `)
	replaced  = regexp.MustCompile(`(?m)^for m in ""((?: /\S+)+); do$`)
)

// TestProgramOutside makes a module in an empty folder beside the clone, as README.md says, and runs the program of the
// tutorial in it. No network is asked, not even for sums: what the stores require is there, or these tests could not be
// built.
func TestProgramOutside(t *testing.T) {
	t.Parallel()
	var script string
	for _, block := range shellBlock.FindAllStringSubmatch(documents(t)[readme], -1) {
		if strings.Contains(block[1], "go mod init") {
			script = block[1]
		}
	}
	modules := replaced.FindStringSubmatch(script)
	if modules == nil {
		t.Fatal("README.md does not make a module outside of the clone")
	}
	work, err := os.ReadFile("../../go.work")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, m := range published.FindAllStringSubmatch(string(work), -1) {
		if m[1] != "" {
			want += " " + m[1]
		}
	}
	if modules[1] != want {
		t.Errorf("README.md replaces the modules%s, and there are%s", modules[1], want)
	}

	_, text, _ := strings.Cut(documents(t)["../../docs/start/tutorial.md"], "Save it as `tutorial/main.go`")
	program := goBlock.FindStringSubmatch(text)
	clone, err := filepath.Abs("../..")
	if err != nil || program == nil {
		t.Fatal("the tutorial has no program, or there is no clone: ", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(clone, filepath.Join(dir, "stile")); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(program[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", script+"\ncp \"$0\" main.go\ngo run . sqlite://$PWD/locks.db $PWD/visits",
		source)
	cmd.Dir = filepath.Join(dir, "stile") // a link: the shell must know by which way it came
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "GOWORK=", "GOFLAGS=", "GOPROXY=off", "GOSUMDB=off")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\nvisit 1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
