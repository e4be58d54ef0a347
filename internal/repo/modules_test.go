package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// core is the path of the module that requires nothing, and the beginning of all the others' paths.
const core = "github.com/stilelock/stile"

// workspaces are the folders of go.work files. Adapters have one of their own.
var workspaces = []string{".", "adapters"}

// A module is one go.mod of a workspace, or go.work itself, as go mod edit -json prints it.
type module struct {
	Module  struct{ Path string }
	Go      string
	Require []requirement
	Replace []struct{ Old, New requirement }

	dir string // from the root, with slashes
}

type requirement struct{ Path, Version string }

// own reports whether a path belongs to a module of this repository.
func own(path string) bool { return path == core || strings.HasPrefix(path, core+"/") }

// modules reads every go.mod of a workspace, and its go.work.
func modules(t *testing.T, workspace string) (list []*module, work *module) {
	t.Helper()
	for dir := range strings.Lines(run(t, nil, "go", "-C", workspace, "list", "-m", "-f", "{{.Dir}}")) {
		dir = strings.TrimSpace(dir)
		m := decode[*module](t, run(t, nil, "go", "mod", "edit", "-json", filepath.Join(dir, "go.mod")))[0]
		rel, err := filepath.Rel(root(t), dir)
		if err != nil {
			t.Fatal(err)
		}
		m.dir = filepath.ToSlash(rel)
		list = append(list, m)
	}
	work = decode[*module](t, run(t, nil, "go", "-C", workspace, "work", "edit", "-json"))[0]
	work.dir = path.Join(workspace, "go.work")
	return list, work
}

// allModules reads every go.mod of all workspaces.
func allModules(t *testing.T) (all []*module) {
	t.Helper()
	for _, workspace := range workspaces {
		list, _ := modules(t, workspace)
		all = append(all, list...)
	}
	return all
}

func TestModulesAgree(t *testing.T) {
	var first *module
	for _, workspace := range workspaces {
		list, work := modules(t, workspace)
		report(t, disagreements(list, work))
		if first == nil {
			first = work
		}
		if a, b := first.Replace[0].Old.Version, work.Replace[0].Old.Version; a != b || first.Go != work.Go {
			t.Errorf("%s: version %s and go %s beside %s and go %s in %s", work.dir, b, work.Go, a, first.Go, first.dir)
		}
	}
}

// disagreements finds modules that do not fit each other. A workspace hides that: it builds all of them with the
// highest version that any of them requires.
func disagreements(list []*module, work *module) (problems []string) {
	version := map[string]string{} // by path, as the first module to require it has it
	first := map[string]string{}   // the folder of that module
	for _, r := range work.Replace {
		version[r.Old.Path], first[r.Old.Path] = r.Old.Version, work.dir
	}
	for _, m := range list {
		if m.Go != work.Go {
			problems = append(problems, fmt.Sprintf("%s: go %s, but %s says go %s", m.dir, m.Go, work.dir, work.Go))
		}
		for _, r := range m.Replace {
			problems = append(problems, fmt.Sprintf("%s: replaces %s; only go.work may", m.dir, r.Old.Path))
		}
		for _, r := range m.Require {
			if v, ok := version[r.Path]; !ok && own(r.Path) {
				problems = append(problems, fmt.Sprintf("%s: requires %s, which %s does not replace", m.dir, r.Path, work.dir))
			} else if !ok {
				version[r.Path], first[r.Path] = r.Version, m.dir
			} else if v != r.Version {
				problems = append(problems,
					fmt.Sprintf("%s: requires %s %s, but %s has %s", m.dir, r.Path, r.Version, first[r.Path], v))
			}
		}
	}
	for _, r := range work.Replace {
		if r.Old.Version != work.Replace[0].Old.Version {
			problems = append(problems, fmt.Sprintf("%s: %s %s beside %s %s; the repository has one version",
				work.dir, r.Old.Path, r.Old.Version, work.Replace[0].Old.Path, work.Replace[0].Old.Version))
		}
	}
	return problems
}

func TestCoreRequiresNothing(t *testing.T) {
	list := allModules(t)
	i := slices.IndexFunc(list, func(m *module) bool { return m.dir == "." })
	if i < 0 {
		t.Fatal("go.work does not use the root")
	}
	if m := list[i]; m.Module.Path != core || len(m.Require) != 0 {
		t.Errorf("go.mod: module %s requires %v; want %s, which requires nothing", m.Module.Path, m.Require, core)
	}
	if _, err := os.Stat(filepath.Join(root(t), "go.sum")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("go.sum: %v; a module that requires nothing has none", err)
	}
}

func TestCoreImports(t *testing.T) {
	report(t, foreign(golang(load(t)), allModules(t)))
}

// foreign finds imports of the core, its tests included, that are neither of the standard library nor of the core.
func foreign(files []*file, list []*module) (problems []string) {
	for _, f := range files {
		if owner(list, filepath.ToSlash(filepath.Dir(f.path))) != "." {
			continue
		}
		for _, spec := range f.syntax.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			elem, _, _ := strings.Cut(p, "/")
			std := !strings.Contains(elem, ".") && p != "C"
			if std || own(p) && owner(list, strings.TrimPrefix(strings.TrimPrefix(p, core), "/")) == "." {
				continue
			}
			problems = append(problems, fmt.Sprintf("%s: the core imports %q", f.at(spec.Pos()), p))
		}
	}
	return problems
}

// owner returns the folder of the module that a folder belongs to.
func owner(list []*module, dir string) string {
	best := "."
	for _, m := range list {
		if len(m.dir) > len(best) && (dir == m.dir || strings.HasPrefix(dir, m.dir+"/")) {
			best = m.dir
		}
	}
	return best
}

func TestDisagreementsCheck(t *testing.T) {
	req := func(pairs ...string) (list []requirement) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, requirement{pairs[i], pairs[i+1]})
		}
		return list
	}
	type replace = struct{ Old, New requirement }
	work := &module{dir: "go.work", Go: "1.26.0", Replace: []replace{{Old: requirement{core, "v1.0.0"}}}}
	for _, tt := range []struct {
		name string
		a, b *module
		want []string
	}{
		{"agree", &module{Go: "1.26.0", Require: req("x", "v1", core, "v1.0.0")},
			&module{Go: "1.26.0", Require: req("x", "v1")}, nil},
		{"go", &module{Go: "1.26.1"}, &module{Go: "1.26.0"}, []string{"a: go 1.26.1, but go.work says go 1.26.0"}},
		{"shared", &module{Go: "1.26.0", Require: req("x", "v1")}, &module{Go: "1.26.0", Require: req("x", "v2")},
			[]string{"b: requires x v2, but a has v1"}},
		{"each other", &module{Go: "1.26.0", Require: req(core, "v1.1.0")}, &module{Go: "1.26.0"},
			[]string{"a: requires " + core + " v1.1.0, but go.work has v1.0.0"}},
		{"not in the workspace", &module{Go: "1.26.0", Require: req(core+"/z", "v1.0.0")}, &module{Go: "1.26.0"},
			[]string{"a: requires " + core + "/z, which go.work does not replace"}},
		{"replace", &module{Go: "1.26.0", Replace: []replace{{Old: requirement{"x", ""}}}}, &module{Go: "1.26.0"},
			[]string{"a: replaces x; only go.work may"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.a.dir, tt.b.dir = "a", "b"
			if got := disagreements([]*module{tt.a, tt.b}, work); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	two := &module{dir: "go.work", Replace: []replace{{Old: requirement{core, "v1.0.0"}}, {Old: requirement{core + "/a", "v1.1.0"}}}}
	want := []string{"go.work: " + core + "/a v1.1.0 beside " + core + " v1.0.0; the repository has one version"}
	if got := disagreements(nil, two); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestForeignCheck(t *testing.T) {
	list := []*module{{dir: "."}, {dir: "redis"}, {dir: "cmd/stile"}}
	check := func(files []*file) []string { return foreign(files, list) }
	imports := func(p string) string { return "package x\nimport _ \"" + p + "\"\n" }
	found := func(file, p string) []string { return []string{fmt.Sprintf("%s:2: the core imports %q", file, p)} }
	try(t, check, []sample{
		{name: "standard library", text: imports("net/http")},
		{name: "core", text: imports(core)},
		{name: "package of the core", text: imports(core + "/driver")},
		{name: "package of the core with a like name", text: imports(core + "/rediskey")},
		{name: "other module of the repository", text: imports(core + "/redis"), want: found("x.go", core+"/redis")},
		{name: "package of an other module", text: imports(core + "/redis/x"), want: found("x.go", core+"/redis/x")},
		{name: "like path", text: imports(core + "x"), want: found("x.go", core+"x")},
		{name: "third party", path: "a/x.go", text: imports("golang.org/x/sys"), want: found("a/x.go", "golang.org/x/sys")},
		{name: "third party in a test", path: "x_test.go", text: imports("a.b/c"), want: found("x_test.go", "a.b/c")},
		{name: "cgo", text: imports("C"), want: found("x.go", "C")},
		{name: "module that may", path: "redis/x.go", text: imports("a.b/c")},
		{name: "command", path: "cmd/stile/a/x.go", text: imports("a.b/c")},
	})
}
