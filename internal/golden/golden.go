// Package golden compares test results with files in testdata. The flag -golden of go test rewrites the files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("golden", false, "write testdata anew")

// Is compares a text with a file in testdata.
func Is(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\n%s has\n%s\nif that is meant: go test . -golden", got, path, want)
	}
}
