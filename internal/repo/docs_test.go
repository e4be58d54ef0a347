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

func TestPackageDocs(t *testing.T)  { report(t, packageDocs(golang(load(t)))) }
func TestExportedDocs(t *testing.T) { report(t, exportedDocs(golang(load(t)))) }

// packageDocs finds packages that do not have exactly one doc comment, beginning with "Package" and the name. That of
// a command may begin as it likes.
func packageDocs(files []*file) (problems []string) {
	type pkg struct {
		name string
		docs []string // files
	}
	pkgs := map[string]*pkg{}
	for _, f := range files {
		if f.test() {
			continue
		}
		dir := path.Dir(f.path)
		if pkgs[dir] == nil {
			pkgs[dir] = &pkg{name: f.syntax.Name.Name}
		}
		if f.syntax.Doc == nil {
			continue
		}
		pkgs[dir].docs = append(pkgs[dir].docs, f.path)
		begin := "Package " + f.syntax.Name.Name + " "
		if f.syntax.Name.Name != "main" && !strings.HasPrefix(f.syntax.Doc.Text(), begin) {
			problems = append(problems, fmt.Sprintf("%s: the comment of the package must begin with %q", f.path, begin))
		}
	}
	for dir, p := range pkgs {
		switch len(p.docs) {
		case 0:
			problems = append(problems, fmt.Sprintf("%s: package %s has no doc comment", dir, p.name))
		case 1:
		default:
			problems = append(problems,
				fmt.Sprintf("%s: package %s has %d doc comments: %s", dir, p.name, len(p.docs), strings.Join(p.docs, ", ")))
		}
	}
	slices.Sort(problems)
	return problems
}

// settled are the methods whose meaning the standard library settles; a comment could only repeat it.
var settled = []string{"Error", "Is", "String", "Unwrap"}

// exportedDocs finds exported names without a doc comment that begins with them.
func exportedDocs(files []*file) (problems []string) {
	for _, f := range files {
		if f.test() {
			continue
		}
		missing := func(id *ast.Ident, doc *ast.CommentGroup) {
			if id.IsExported() && !begins(doc, id.Name) {
				problems = append(problems,
					fmt.Sprintf("%s: %s has no doc comment that begins with its name", f.at(id.Pos()), id.Name))
			}
		}
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || exported(d.Recv.List[0].Type) && !slices.Contains(settled, d.Name.Name) {
					missing(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						missing(spec.Name, either(spec.Doc, d.Doc))
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							if !grouped(d, spec) {
								missing(id, either(spec.Doc, d.Doc))
							}
						}
					}
				}
			}
		}
	}
	return problems
}

// grouped reports whether a constant or variable is explained by its block, or by the comment at the end of its line.
func grouped(d *ast.GenDecl, spec *ast.ValueSpec) bool {
	return d.Lparen.IsValid() && spec.Doc == nil && (spec.Comment.Text() != "" || d.Doc.Text() != "")
}

func either(a, b *ast.CommentGroup) *ast.CommentGroup {
	if a != nil {
		return a
	}
	return b
}

var article = regexp.MustCompile(`^(A|An|The) `)

func begins(doc *ast.CommentGroup, name string) bool {
	rest, ok := strings.CutPrefix(article.ReplaceAllString(doc.Text(), ""), name)
	return ok && rest != "" && !token.IsIdentifier("x"+rest[:1])
}

// exported reports whether the type of a receiver is exported.
func exported(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return exported(e.X)
	case *ast.IndexExpr:
		return exported(e.X)
	case *ast.IndexListExpr:
		return exported(e.X)
	case *ast.Ident:
		return e.IsExported()
	}
	return false
}

func TestPackageDocsCheck(t *testing.T) {
	try(t, packageDocs, []sample{
		{name: "one", text: "// Package x is.\npackage x"},
		{name: "none", text: "package x", want: []string{".: package x has no doc comment"}},
		{name: "other name", text: "// Package y is.\npackage x",
			want: []string{`x.go: the comment of the package must begin with "Package x "`}},
		{name: "command", text: "// Stile holds locks.\npackage main"},
		{name: "licence above a blank line", text: "// Copyright\n\npackage x",
			want: []string{".: package x has no doc comment"}},
		{name: "test", path: "x_test.go", text: "package x"},
	})
	var two []*file
	for _, name := range []string{"a/a.go", "a/b.go"} {
		f, err := parse(name, "// Package a is.\npackage a")
		if err != nil {
			t.Fatal(err)
		}
		two = append(two, f)
	}
	if got, want := packageDocs(two), []string{"a: package a has 2 doc comments: a/a.go, a/b.go"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExportedDocsCheck(t *testing.T) {
	lacks := func(line int, name string) []string {
		return []string{fmt.Sprintf("x.go:%d: %s has no doc comment that begins with its name", line, name)}
	}
	try(t, exportedDocs, []sample{
		{name: "function", text: "package x\nfunc F() {}", want: lacks(2, "F")},
		{name: "function, documented", text: "package x\n// F does.\nfunc F() {}"},
		{name: "function, other name", text: "package x\n// Fold does.\nfunc F() {}", want: lacks(3, "F")},
		{name: "function, other beginning", text: "package x\n// Does F.\nfunc F() {}", want: lacks(3, "F")},
		{name: "function, unexported", text: "package x\nfunc f() {}"},
		{name: "name alone", text: "package x\n// F\nfunc F() {}"},
		{name: "directive alone", text: "package x\n//go:noinline\nfunc F() {}", want: lacks(3, "F")},
		{name: "method", text: "package x\n// A T is.\ntype T int\nfunc (t *T) M() {}", want: lacks(4, "M")},
		{name: "method, generic", text: "package x\n// A T is.\ntype T[K any] int\nfunc (t *T[K]) M() {}",
			want: lacks(4, "M")},
		{name: "method, settled", text: "package x\n// The T is.\ntype T int\nfunc (t T) String() string { return \"\" }"},
		{name: "method of unexported", text: "package x\ntype t int\nfunc (t) M() {}"},
		{name: "function named as a settled method", text: "package x\nfunc Error() {}", want: lacks(2, "Error")},
		{name: "type", text: "package x\ntype T int", want: lacks(2, "T")},
		{name: "type in a block", text: "package x\ntype (\n\t// A T is.\n\tT int\n\tU int\n)", want: lacks(5, "U")},
		{name: "constant", text: "package x\nconst C = 1", want: lacks(2, "C")},
		{name: "constant, line comment alone", text: "package x\nconst C = 1 // one", want: lacks(2, "C")},
		{name: "block with a comment", text: "package x\n// What is.\nvar (\n\tA int\n\tB int\n)"},
		{name: "block with line comments", text: "package x\nvar (\n\tA int // is\n\tB int\n)", want: lacks(4, "B")},
		{name: "block with an own comment", text: "package x\n// What is.\nvar (\n\t// Is.\n\tA int\n)",
			want: lacks(5, "A")},
		{name: "test", path: "x_test.go", text: "package x\nfunc TestF() {}"},
	})
}
