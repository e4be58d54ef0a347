package java

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program is found from its own folder and below, once it is built, and so are the versions of its libraries.
func TestFind(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := Find("some/java"); err == nil || !strings.Contains(err.Error(), "internal/java/build some/java builds it") {
		t.Errorf("a program that is not built: %v", err)
	}
	lib := "some/java/target/lib"
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"some/java/target/done", lib + "/a-lib-5.9.0.jar", lib + "/a-5.8.0.jar", lib + "/b-1.jar", lib + "/b-2.jar"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(lib)
	p, err := Find("some/java")
	if err != nil {
		t.Fatal(err)
	}
	for library, want := range map[string]string{"org:a-lib": "5.9.0", "org:a": "5.8.0", "org:b": "", "org:c": ""} {
		if got := p.Version(library); got != want {
			t.Errorf("the version of %s is %q; want %q", library, got, want)
		}
	}
	args := p.Command("-Xmx1m").Args
	if path := filepath.Join("some", "java", "target", "classes"); filepath.Base(args[0]) != "java" || args[1] != "-Xmx1m" ||
		!slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, path) }) {
		t.Errorf("the command is %q", args)
	}
}
