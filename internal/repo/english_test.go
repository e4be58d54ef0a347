package repo

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pages and doc comments read aloud: subject, verb, object; the noun in place of "that" and "who"; "only" in place of
// "alone". What can be found by a pattern is found here.

func TestEnglish(t *testing.T) { report(t, english(load(t))) }

// habits are turns of phrase that do not read aloud, and what to write instead.
var habits = []struct {
	what   *regexp.Regexp
	better string
}{
	{regexp.MustCompile(`(?i)\b(?:is|are|was|were|be|been|being) told\b`), `say who hears of it, learns it or finds it out`},
	{regexp.MustCompile(`(?i)\b(?:\w+ )?(?:\w+ )?alone\b`), `"only" before the word that it limits`},
	{regexp.MustCompile(`(?i)\b(?:for|at most|in|until|after|of|by|takes?|has|have) so (?:long|many|much)\b`), `name the time or the number`},
	{regexp.MustCompile(`(?:^|[.!?:] )(?:Who|Whoever|He who) (?:[a-z]+)`), `name who it is: a program, a holder, a waiter`},
	{regexp.MustCompile(`(?i)\bthat cannot be (?:is|are)\b`), `say what is wrong with it`},
	{regexp.MustCompile(`(?i)\bthose who\b`), `name them: holders, waiters, programs`},
}

// spared are right as they stand.
var spared = regexp.MustCompile(`(?i)\b(?:leaves?|left|let|stands?|is|be|are|work|works|lives?) (?:\w+ )?alone$|\b(?:lock|claim|holder) alone$|^alone$`)

// recorded are pages that a run writes: their words stand in what was recorded.
var recorded = regexp.MustCompile(`^docs/evidence/(?:bench/|interop\.md|known-bugs\.md|mutants\.md)|\.zh-CN\.md$`)

// english finds habits in pages and doc comments.
func english(files []*file) (problems []string) {
	for _, f := range pages(files) {
		if !recorded.MatchString(f.path) {
			problems = append(problems, habitsIn(f.path, 1, prose(f.text))...)
		}
	}
	for _, f := range golang(files) {
		if f.test() || !public(f.path) {
			continue
		}
		for _, doc := range docComments(f) {
			problems = append(problems, habitsIn(f.path, f.fset.Position(doc.Pos()).Line, doc.Text())...)
		}
	}
	return problems
}

// public reports whether users read the documentation of a package.
func public(name string) bool {
	return !regexp.MustCompile(`(^|/)(internal|cmd|drivertest|proof)/`).MatchString(name)
}

var (
	titles = regexp.MustCompile(`(?m)^#.*$`)
	indent = regexp.MustCompile(`(?m)^    .*$`)
)

// prose is a page without headings, code and what a run recorded.
func prose(text string) string {
	for _, what := range []*regexp.Regexp{fence, inline, titles, indent} {
		text = blank(text, what)
	}
	return text
}

func habitsIn(name string, first int, text string) (problems []string) {
	for i, line := range strings.Split(text, "\n") {
		for _, h := range habits {
			for _, words := range h.what.FindAllString(line, -1) {
				if !spared.MatchString(words) {
					problems = append(problems, fmt.Sprintf("%s:%d: %q: %s", name, first+i, strings.TrimSpace(words), h.better))
				}
			}
		}
	}
	return problems
}

// docComments returns what go doc shows of a file: the comments of the package, and of exported names.
func docComments(f *file) (list []*ast.CommentGroup) {
	add := func(doc *ast.CommentGroup, shown bool) {
		if doc != nil && shown {
			list = append(list, doc)
		}
	}
	add(f.syntax.Doc, true)
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Doc, d.Name.IsExported() && (d.Recv == nil || exported(d.Recv.List[0].Type)))
		case *ast.GenDecl:
			add(d.Doc, d.Tok != token.IMPORT && slices.ContainsFunc(d.Specs, shownSpec))
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Doc, spec.Name.IsExported())
					fields := &ast.FieldList{}
					switch t := spec.Type.(type) {
					case *ast.StructType:
						fields = t.Fields
					case *ast.InterfaceType:
						fields = t.Methods
					}
					for _, field := range fields.List {
						shown := spec.Name.IsExported() && slices.ContainsFunc(field.Names, (*ast.Ident).IsExported)
						add(field.Doc, shown)
						add(field.Comment, shown)
					}
				case *ast.ValueSpec:
					shown := slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported)
					add(spec.Doc, shown)
					add(spec.Comment, shown)
				}
			}
		}
	}
	return list
}

// shownSpec reports whether a declaration has an exported name.
func shownSpec(spec ast.Spec) bool {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.IsExported()
	case *ast.ValueSpec:
		return slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported)
	}
	return false
}

func TestEnglishCheck(t *testing.T) {
	page := func(text string) []*file { return book(t, path.Join("docs", "a.md"), text) }
	for _, tt := range []struct {
		name  string
		files []*file
		want  int
	}{
		{"told", page("The holder is told at once."), 1},
		{"alone", page("It takes exclusive locks alone."), 1},
		{"left alone", page("Keys of others are left alone."), 0},
		{"so long", page("It waits for so long."), 1},
		{"a sentence about nobody", page("It ends. Who waits goes on."), 1},
		{"those who", page("It wakes those who wait."), 1},
		{"code", page("`is told` and\n\n```\nis told\n```\n"), 0},
		{"heading", page("# Who waits\n"), 0},
		{"doc comment", book(t, "a.go", "package a\n\n// F is told.\nfunc F() {}\n"), 1},
		{"comment of what is not shown", book(t, "a.go", "package a\n\n// f is told.\nfunc f() {}\n"), 0},
		{"field", book(t, "a.go", "package a\n\n// T is.\ntype T struct {\n\tF int // is told\n\tg int // is told\n}\n"), 1},
		{"test", book(t, "a_test.go", "package a\n\n// F is told.\nfunc F() {}\n"), 0},
		{"recorded", book(t, path.Join("docs", "evidence", "bench", "a.md"), "One is told."), 0},
	} {
		if got := english(tt.files); len(got) != tt.want {
			t.Errorf("%s: got %q, want %d of them", tt.name, got, tt.want)
		}
	}
}
