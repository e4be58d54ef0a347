// Package java finds this repository's programs in Java, which drive lock libraries for Java for comparison with stile.
// internal/java/build builds them.
package java

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Program is a built program.
type Program struct{ target string }

// Find returns the program of a folder in this repository, such as chaos/java. It looks in the working directory and above.
func Find(folder string) (*Program, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for ; ; dir = filepath.Dir(dir) {
		target := filepath.Join(dir, filepath.FromSlash(folder), "target")
		if _, err := os.Stat(filepath.Join(target, "done")); err == nil {
			return &Program{target}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("the program in %s is not built: internal/java/build %s builds it, and needs mvn and javac",
				folder, folder)
		}
	}
}

// Command returns the command that runs the program's class peer.Worker, with options for the JVM.
func (p *Program) Command(options ...string) *exec.Cmd {
	path := filepath.Join(p.target, "classes") + string(os.PathListSeparator) + filepath.Join(p.target, "lib", "*")
	return exec.Command("java", append(options, "-Dslf4j.internal.verbosity=ERROR", "-cp", path, "peer.Worker")...)
}

// Version returns the version of a library, named group:artifact, beside the program; "" without it.
func (p *Program) Version(library string) string {
	_, name, _ := strings.Cut(library, ":")
	found, _ := filepath.Glob(filepath.Join(p.target, "lib", name+"-[0-9]*.jar"))
	if len(found) != 1 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), name+"-"), ".jar")
}

// Version returns the version of Java, "" if there is none.
func Version() string {
	told, _ := exec.Command("java", "-version").CombinedOutput() // such as: openjdk version "17.0.15" 2025-04-15
	if quoted := strings.Split(string(told), `"`); len(quoted) > 1 {
		return quoted[1]
	}
	return ""
}
