package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// walls are the packages of the command, and for each the packages that it may import. Their doc comments say the
// same. Nobody imports main, which may import all.
var walls = map[string][]string{
	"bench":   {"reserve"},
	"build":   {},
	"claim":   {"flags", "grant", "page", "proc", "speech", "store", "tty"},
	"cron":    {"claim", "flags", "guard", "run", "speech", "store"},
	"early":   {"guard"},
	"elect":   {"claim", "flags", "run", "speech", "store"},
	"flags":   {},
	"grant":   {"flags", "store"},
	"guard":   {},
	"inspect": {"claim", "flags", "page", "speech", "store", "tty"},
	"migrate": {"store"},
	"page":    {},
	"proc":    {"guard", "tty"},
	"prove":   {"reserve"},
	"reserve": {},
	"run":     {"claim", "flags", "guard", "proc", "speech", "store"},
	"script":  {"claim", "flags", "grant", "speech", "store"},
	"serve":   {"flags", "speech", "store"},
	"speech":  {"tty"},
	"store":   {"page", "speech", "tty"},
	"tickets": {"store", "tty"},
	"trial":   {"bench", "flags", "page", "prove", "reserve", "speech", "store"},
	"tty":     {},
}

// drawing are the packages that may draw pictures, which package draw does: the reports of prove, bench and demos.
var drawing = []string{"prove", "tickets", "trial"}

// TestWalls holds each package of the command to what its doc comment says that it may import, and the comment to the table.
func TestWalls(t *testing.T) {
	const root = "github.com/stilelock/stile/cmd/stile/internal/"
	dirs, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, dir := range dirs {
		there = append(there, dir.Name())
	}
	if want := slices.Sorted(maps.Keys(walls)); !slices.Equal(there, want) {
		t.Errorf("internal has the packages %v; want %v", there, want)
	}
	for name, may := range walls {
		doc, imports := packageOf(t, filepath.Join("internal", name))
		if want := mayImport(may); !strings.HasSuffix(strings.Join(strings.Fields(doc), " "), want) {
			t.Errorf("%s: its doc comment does not end with %q", name, want)
		}
		if draws := slices.Contains(imports, "github.com/stilelock/stile/internal/draw"); draws != slices.Contains(drawing, name) {
			t.Errorf("%s imports package draw: %v; want %v", name, draws, !draws)
		}
		var own []string
		for _, p := range imports {
			if of, ok := strings.CutPrefix(p, root); ok {
				own = append(own, of)
			}
		}
		if !slices.Equal(own, may) {
			t.Errorf("%s imports %v of the command's packages; want %v", name, own, may)
		}
	}
}

// packageOf returns the doc comment of a package, and what its files import but for tests, in order.
func packageOf(t *testing.T, dir string) (doc string, imports []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		doc += f.Doc.Text()
		for _, spec := range f.Imports {
			imports = append(imports, importPath(t, spec))
		}
	}
	slices.Sort(imports)
	return doc, slices.Compact(imports)
}

func importPath(t *testing.T, spec *ast.ImportSpec) string {
	t.Helper()
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		t.Fatal(err)
	}
	return path.Clean(p)
}

// mayImport is how a doc comment says what a package may import.
func mayImport(names []string) string {
	list := "none"
	switch n := len(names); {
	case n == 1:
		list = names[0]
	case n > 1:
		list = strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return "Of the other packages of the command it may import " + list + "."
}
