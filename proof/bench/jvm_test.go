//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJavaIsBuilt checks the path of the child in Java, the error if nobody has built it, and that its versions are the
// versions of its files.
func TestJavaIsBuilt(t *testing.T) {
	t.Chdir(t.TempDir())
	child := &task{Role: "own", Java: true}
	if _, err := startChild(child); err == nil || !strings.Contains(err.Error(), "proof/bench/java builds it") {
		t.Errorf("a child that is not built: %v", err)
	}
	lib := "proof/bench/java/target/lib"
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proof/bench/java/target/done", lib + "/curator-recipes-5.9.0.jar", lib + "/curator-client-5.8.0.jar"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(lib)
	cmd, err := child.command()
	if err != nil {
		t.Fatal(err)
	}
	if path := filepath.Join("java", "target", "classes"); filepath.Base(cmd.Args[0]) != "java" || !strings.Contains(strings.Join(cmd.Args, " "), path) {
		t.Errorf("the command is %q", cmd.Args)
	}
	if got := javaVersions([]string{"org.apache.curator:curator-recipes"}); !slices.Contains(got, "org.apache.curator:curator-recipes 5.9.0") {
		t.Errorf("the versions are %q, want that of the file", got)
	}
}
