package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A file is one text of the repository.
type file struct {
	path   string // from the root, with slashes
	text   string
	syntax *ast.File // nil if it is not Go
	fset   *token.FileSet
}

// parse makes a file of a path and its text.
func parse(name, text string) (*file, error) {
	f := &file{path: name, text: text}
	if path.Ext(name) != ".go" {
		return f, nil
	}
	f.fset = token.NewFileSet()
	var err error
	f.syntax, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// at returns where a node stands, for a person.
func (f *file) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(p).Line)
}

// test reports whether the file is compiled for tests only.
func (f *file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// testing reports whether the file is a test or helps tests.
func (f *file) testing() bool { return f.test() || f.imported("testing") != "" }

// imported returns the name by which the file uses a package, or nothing if it does not import it.
func (f *file) imported(pkg string) string {
	for _, spec := range f.syntax.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == pkg {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(pkg)
		}
	}
	return ""
}

// golang keeps the Go files.
func golang(files []*file) []*file {
	return slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return f.syntax == nil })
}

// root is the folder of go.work.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// load reads every file that git tracks or would track.
func load(t *testing.T) []*file {
	t.Helper()
	var files []*file
	list := run(t, nil, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := parse(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) < 10 {
		t.Fatalf("git lists %d files; the checks would prove nothing", len(files))
	}
	return files
}

// run runs a command in the root and returns its output. The environment of a git hook would point git elsewhere.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root(t)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return stdout.String()
}

// decode reads a sequence of JSON values, as go list -json prints them.
func decode[T any](t *testing.T, text string) []T {
	t.Helper()
	var list []T
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v T
		err := d.Decode(&v)
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
}

// report fails the test with one line per problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// A sample is a small source with the problems that a check must find in it.
type sample struct {
	name string
	path string // x.go if empty
	text string
	want []string
}

// try holds a check to its samples.
func try(t *testing.T, check func([]*file) []string, samples []sample) {
	t.Helper()
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			if s.path == "" {
				s.path = "x.go"
			}
			f, err := parse(s.path, s.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := check([]*file{f}); !slices.Equal(got, s.want) {
				t.Errorf("got %q, want %q", got, s.want)
			}
		})
	}
}
