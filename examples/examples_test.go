//go:build unix

package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// TestExamples runs all programs, and the script with the command.
func TestExamples(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./...", "../cmd/stile").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	redis := servertest.Redis(t).Addr
	outputs, err := filepath.Glob("*/output.txt")
	if err != nil || len(outputs) < 9 {
		t.Fatalf("there are %d examples (%v)", len(outputs), err)
	}
	for _, output := range outputs {
		name := filepath.Dir(output)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(output)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, name), t.TempDir(), redis)
			if script := filepath.Join(name, "run.sh"); exists(script) {
				cmd = exec.CommandContext(ctx, "sh", script)
			}
			dir := t.TempDir()
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "STILE_URL=sqlite://"+filepath.Join(dir, "locks.db"),
				"XDG_RUNTIME_DIR="+dir, "XDG_STATE_HOME="+dir)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			got, err := cmd.Output()
			if err != nil || string(got) != string(want) {
				t.Errorf("%v\nprinted\n%s\nwant\n%s\nand on stderr\n%s", err, got, want, &stderr)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
