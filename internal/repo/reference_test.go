package repo

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages of docs/reference name everything that a program can meet, and nothing that is not there; and the words that
// docs/help/troubleshooting.md explains are words that programs print.

func TestReferencePages(t *testing.T)  { report(t, reference(load(t))) }
func TestTroubleshooting(t *testing.T) { report(t, unsaid(load(t))) }

// references are the pages, and which names of the root package each must have: the exported variables and constants of
// a file that match, and the fields of some types.
var references = []struct {
	page, file string
	names      *regexp.Regexp
	types      []string
}{
	{"docs/reference/errors.md", "errors.go", regexp.MustCompile(`^(Err|Reason)[A-Z]`), nil},
	{"docs/reference/events.md", "observer.go", regexp.MustCompile(`^Event[A-Z]`), []string{"Event"}},
	{"docs/reference/options.md", "options.go", nil, []string{"Options", "LockOptions"}},
}

// reference finds names that a page of reference leaves out.
func reference(files []*file) (problems []string) {
	for _, r := range references {
		source, page := named(files, r.file), named(files, r.page)
		if source == nil || page == nil {
			problems = append(problems, fmt.Sprintf("%s or %s is not there", r.page, r.file))
			continue
		}
		for _, name := range exportedNames(source, r.names, r.types) {
			if !strings.Contains(page.text, "| `"+name+"` |") {
				problems = append(problems, fmt.Sprintf("%s: no row for %s of %s", r.page, name, r.file))
			}
		}
	}
	return problems
}

func named(files []*file, path string) *file {
	if i := slices.IndexFunc(files, func(f *file) bool { return f.path == path }); i >= 0 {
		return files[i]
	}
	return nil
}

// exportedNames returns the variables and constants of a file that match, and the fields of some of its types. An embedded
// type is no name: it has fields of its own.
func exportedNames(f *file, match *regexp.Regexp, types []string) (list []string) {
	add := func(ids []*ast.Ident, ok func(string) bool) {
		for _, id := range ids {
			if id.IsExported() && ok(id.Name) {
				list = append(list, id.Name)
			}
		}
	}
	for _, d := range f.syntax.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				add(spec.Names, func(name string) bool { return match != nil && match.MatchString(name) })
			case *ast.TypeSpec:
				fields, ok := spec.Type.(*ast.StructType)
				if !ok || !slices.Contains(types, spec.Name.Name) {
					continue
				}
				for _, field := range fields.Fields.List {
					add(field.Names, func(string) bool { return true })
				}
			}
		}
	}
	return list
}

const troubleshooting = "docs/help/troubleshooting.md"

var textBlock = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")

// unsaid finds words on the page about errors that no program prints. A … on the page stands for what differs.
func unsaid(files []*file) (problems []string) {
	page := named(files, troubleshooting)
	if page == nil {
		return []string{troubleshooting + " is not there"}
	}
	var source strings.Builder
	for _, f := range files {
		if path.Ext(f.path) == ".go" && !f.test() {
			source.WriteString(f.text)
		}
	}
	for _, block := range textBlock.FindAllStringSubmatch(page.text, -1) {
		for line := range strings.Lines(block[1]) {
			for part := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "…") {
				for words := range strings.SplitSeq(part, ": ") {
					if words = strings.TrimSpace(words); !strings.Contains(source.String(), words) {
						problems = append(problems, fmt.Sprintf("%s: no program says %q", troubleshooting, words))
					}
				}
			}
		}
	}
	return problems
}

func TestReferenceChecks(t *testing.T) {
	const source = "package x\nvar (\n\tErrOne = 1\n\terrTwo = 2\n)\nconst ReasonMany = 3\nconst Other = 4"
	events, options := "package x\ntype Event struct {\n\tName string\n\tskipped int\n}", "package x\ntype Options struct{ Turn int }"
	all := func(errors string) []string {
		return []string{"errors.go", source, "docs/reference/errors.md", errors,
			"observer.go", events, "docs/reference/events.md", "| `Name` |",
			"options.go", options, "docs/reference/options.md", "| `Turn` |"}
	}
	for _, tt := range []struct {
		name  string
		check func([]*file) []string
		files []string
		want  []string
	}{
		{"whole", reference, all("| `ErrOne` | is\n| `ReasonMany` | is"), nil},
		{"one is left out", reference, all("| `ErrOne` | is\n`ReasonMany`"),
			[]string{"docs/reference/errors.md: no row for ReasonMany of errors.go"}},
		{"said", unsaid, []string{"a.go", "package a\nvar x = \"one for %v more\"", troubleshooting, "```text\none for … more\n```\n"}, nil},
		{"said by a test only", unsaid, []string{"a_test.go", "package a\nvar x = \"one\"", troubleshooting, "```text\none\n```\n"},
			[]string{troubleshooting + `: no program says "one"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.check(book(t, tt.files...)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
