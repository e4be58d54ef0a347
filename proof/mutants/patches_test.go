package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Each patch applies to this tree, and its head names tests that exist. make mutants checks that it compiles and is found.
func TestPatchesApply(t *testing.T) {
	t.Chdir("../..")
	files, err := filepath.Glob(filepath.Join(patches, "*.patch"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are the patches %v, %v; want some", files, err)
	}
	for _, file := range files {
		if out, err := exec.Command("git", "apply", "--check", file).CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %v\n%s", file, err, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var m mutant
		if err := m.head(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
