package repo

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestDocLinks(t *testing.T) { report(t, deadLinks(golang(load(t)))) }

// deadLinks finds names in brackets in doc comments that do not exist. A link may name what is not exported in its own
// package, and a promoted field or method. Packages outside of this repository are not read: of these, only the import is
// checked.
func deadLinks(files []*file) (problems []string) {
	all := scopes(files)
	for _, f := range files {
		s := all[scopeOf(f)]
		for _, doc := range anyDocs(f) {
			text := doc.Text()
			if !strings.Contains(text, "[") {
				continue
			}
			links, glued := linksIn(text)
			for _, link := range links {
				if why := s.lacks(strings.TrimPrefix(link, "*")); why != "" {
					problems = append(problems, fmt.Sprintf("%s: [%s]: %s", f.at(linkAt(doc, link)), link, why))
				}
			}
			for _, link := range glued {
				problems = append(problems,
					fmt.Sprintf("%s: [%s]: a letter follows, so this is not a link", f.at(linkAt(doc, link)), link))
			}
		}
	}
	return problems
}

// anyDocs returns the doc comments of a file: of the package, of declarations outside of functions, and of fields.
func anyDocs(f *file) (list []*ast.CommentGroup) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			list = append(list, n.Doc)
		case *ast.FuncDecl:
			list = append(list, n.Doc)
		case *ast.GenDecl:
			list = append(list, n.Doc)
		case *ast.TypeSpec:
			list = append(list, n.Doc, n.Comment)
		case *ast.ValueSpec:
			list = append(list, n.Doc, n.Comment)
		case *ast.Field:
			list = append(list, n.Doc, n.Comment)
		case *ast.BlockStmt:
			return false
		}
		return true
	})
	return slices.DeleteFunc(list, func(doc *ast.CommentGroup) bool { return doc == nil })
}

var (
	linkText  = regexp.MustCompile(`^\*?[\pL_]\w*(\.[\pL_]\w*){0,2}$`)
	gluedText = regexp.MustCompile(`(?:^|[\s\pP])\[(\*?[\pL_][\w.]*)\]\w`)
)

// linksIn returns the names in brackets in a doc comment, and names in brackets that are no links because a letter follows.
// Code is left out, and so are brackets with a URL.
func linksIn(doc string) (links, glued []string) {
	everything := comment.Parser{
		LookupPackage: func(name string) (string, bool) { return name, linkText.MatchString(name) },
		LookupSym:     func(string, string) bool { return true },
	}
	texts := func(list []comment.Text) {
		for _, t := range list {
			switch t := t.(type) {
			case *comment.DocLink:
				links = append(links, string(t.Text[0].(comment.Plain)))
			case comment.Plain:
				for _, m := range gluedText.FindAllStringSubmatch(string(t), -1) {
					glued = append(glued, m[1])
				}
			}
		}
	}
	var blocks func([]comment.Block)
	blocks = func(list []comment.Block) {
		for _, b := range list {
			switch b := b.(type) {
			case *comment.Paragraph:
				texts(b.Text)
			case *comment.Heading:
				texts(b.Text)
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			}
		}
	}
	blocks(everything.Parse(doc).Content)
	return links, glued
}

// linkAt returns where a link stands in a comment.
func linkAt(doc *ast.CommentGroup, link string) token.Pos {
	for _, c := range doc.List {
		if i := strings.Index(c.Text, "["+link+"]"); i >= 0 {
			return c.Pos() + token.Pos(i)
		}
	}
	return doc.Pos()
}

// A scope is what the doc comments of a package can link to.
type scope struct {
	all     map[string]*scope
	name    string
	imports map[string][]string        // paths by the name in the file
	decls   map[string]ast.Expr        // declared names, with the type if it is one
	methods map[string]map[string]bool // by the name of the receiver
}

// scopeOf names the scope of a file. Tests see the names of the package too; the package does not see the tests'.
func scopeOf(f *file) string {
	id := path.Dir(f.path) + " " + f.syntax.Name.Name
	if f.test() {
		id += " tests"
	}
	return id
}

// scopes reads the scopes of all packages.
func scopes(files []*file) map[string]*scope {
	all := map[string]*scope{}
	for _, f := range files {
		in := []string{scopeOf(f)}
		if !f.test() {
			in = append(in, scopeOf(f)+" tests")
		}
		for _, id := range in {
			if all[id] == nil {
				all[id] = &scope{all, f.syntax.Name.Name, map[string][]string{}, map[string]ast.Expr{}, map[string]map[string]bool{}}
			}
			all[id].add(f)
		}
	}
	return all
}

// add puts the names of a file into the scope.
func (s *scope) add(f *file) {
	for _, spec := range f.syntax.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := assumedName(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if !slices.Contains(s.imports[name], p) {
			s.imports[name] = append(s.imports[name], p)
		}
	}
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				s.decls[d.Name.Name] = nil
				continue
			}
			recv := typeName(d.Recv.List[0].Type)
			if s.methods[recv] == nil {
				s.methods[recv] = map[string]bool{}
			}
			s.methods[recv][d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.decls[spec.Name.Name] = spec.Type
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						s.decls[id.Name] = nil
					}
				}
			}
		}
	}
}

var (
	major    = regexp.MustCompile(`/v\d+$`)
	notIdent = regexp.MustCompile(`[^\pL\d_].*`)
)

// assumedName is the name that go doc takes a package to have.
func assumedName(pkg string) string {
	return notIdent.ReplaceAllString(strings.TrimPrefix(path.Base(major.ReplaceAllString(pkg, "")), "go-"), "")
}

// typeName returns the name of a type in the same package, or nothing.
func typeName(e ast.Expr) string {
	if id, ok := bare(e).(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// bare is a type without pointers, parentheses and type arguments.
func bare(e ast.Expr) ast.Expr {
	switch t := e.(type) {
	case *ast.StarExpr:
		return bare(t.X)
	case *ast.ParenExpr:
		return bare(t.X)
	case *ast.IndexExpr:
		return bare(t.X)
	case *ast.IndexListExpr:
		return bare(t.X)
	}
	return e
}

// lacks says why a link leads nowhere, or nothing if it leads somewhere.
func (s *scope) lacks(link string) string {
	dir, last := path.Split(link)
	parts := strings.Split(last, ".")
	if dir != "" {
		return s.elsewhere(dir+parts[0], parts[1:])
	}
	if _, ok := s.decls[parts[0]]; ok {
		return s.lacksName(parts)
	}
	paths := s.imports[parts[0]]
	_, std := comment.DefaultLookupPackage(parts[0])
	switch {
	case len(paths) > 1:
		return fmt.Sprintf("files import %s as %s", strings.Join(paths, " and "), parts[0])
	case len(paths) == 1:
		return s.elsewhere(paths[0], parts[1:])
	case parts[0] == s.name:
		return s.lacksName(parts[1:])
	case std:
		return ""
	}
	return fmt.Sprintf("package %s neither has nor imports %s", s.name, parts[0])
}

// elsewhere says what another package lacks of names that a link gives it.
func (s *scope) elsewhere(pkg string, names []string) string {
	if !own(pkg) {
		return ""
	}
	other := s.packageAt(pkg)
	if other == nil {
		return pkg + " is not there"
	}
	for _, name := range names {
		if !ast.IsExported(name) {
			return fmt.Sprintf("%s is not exported", name)
		}
	}
	return other.lacksName(names)
}

// packageAt returns the scope of a package of this repository, or nil.
func (s *scope) packageAt(pkg string) *scope {
	dir := path.Clean("." + strings.TrimPrefix(pkg, core))
	for id, other := range s.all {
		if id == dir+" "+other.name && other.name != "main" {
			return other
		}
	}
	return nil
}

// lacksName says what a package lacks of a name, or of a type and its member.
func (s *scope) lacksName(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if _, ok := s.decls[names[0]]; !ok {
		return fmt.Sprintf("package %s has no %s", s.name, names[0])
	}
	if len(names) > 2 || len(names) == 2 && !s.hasMember(names[0], names[1], maxEmbedded) {
		return fmt.Sprintf("%s has no %s", names[0], strings.Join(names[1:], "."))
	}
	return ""
}

// maxEmbedded is how deep a member may be embedded. Types that embed pointers to each other have no depth.
const maxEmbedded = 8

// hasMember reports whether a type has a method or a field, or gets one from what it embeds.
func (s *scope) hasMember(name, member string, depth int) bool {
	t := s.decls[name]
	return t != nil && depth > 0 && (s.methods[name][member] || s.inType(t, member, depth-1))
}

// inType is hasMember for the text of a type. A type from outside of the repository has every member.
func (s *scope) inType(t ast.Expr, member string, depth int) bool {
	switch t := bare(t).(type) {
	case *ast.Ident:
		return s.hasMember(t.Name, member, depth)
	case *ast.SelectorExpr:
		paths := s.imports[t.X.(*ast.Ident).Name]
		if len(paths) == 0 || !own(paths[0]) {
			return true
		}
		other := s.packageAt(paths[0])
		return other != nil && other.hasMember(t.Sel.Name, member, depth)
	case *ast.StructType:
		return s.inFields(t.Fields, member, depth)
	case *ast.InterfaceType:
		return s.inFields(t.Methods, member, depth)
	}
	return false
}

func (s *scope) inFields(fields *ast.FieldList, member string, depth int) bool {
	return slices.ContainsFunc(fields.List, func(field *ast.Field) bool {
		if len(field.Names) == 0 {
			return typeLast(field.Type) == member || s.inType(field.Type, member, depth)
		}
		return slices.ContainsFunc(field.Names, func(id *ast.Ident) bool { return id.Name == member })
	})
}

// typeLast returns the name of the field that an embedded type makes.
func typeLast(e ast.Expr) string {
	if sel, ok := bare(e).(*ast.SelectorExpr); ok {
		return sel.Sel.Name
	}
	return typeName(e)
}

func TestDocLinksCheck(t *testing.T) {
	const types = "\ntype T struct {\n\tF int\n\t*e\n}\nfunc (T) M() {}\ntype e struct{ G int }\nfunc (e) N() {}\n" +
		"type I interface{ io.Reader; P() }\ntype L[K any] struct{ *L[K] }\nconst C = 1\nvar v int\nfunc f() {}\n"
	doc := func(lines string) []string {
		return []string{"a/a.go", "package a\nimport \"io\"\nimport \"" + core + "/b\"\n" + lines + types}
	}
	b := []string{"b/b.go", "package b\n\n// [B], [b.B] and [B.unexported].\ntype B struct{ X, unexported int }"}
	for _, tt := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"names", doc("// [T] [*T] [I] [C] [v] [f] [a.T] [a]"), nil},
		{"members", doc("// [T.F] [T.M] [T.e] [T.G] [T.N] [I.P] [a.T.F]"), nil},
		{"members of others", doc("// [I.Read] [I.Reader]"), nil},
		{"no name", doc("// [T] [U]\n// [u]."), []string{"a/a.go:4: [U]: package a neither has nor imports U",
			"a/a.go:5: [u]: package a neither has nor imports u"}},
		{"no member", doc("// [T.X] [e.F]: [*L.X] [C.X]"), []string{"a/a.go:4: [T.X]: T has no X", "a/a.go:4: [e.F]: e has no F",
			"a/a.go:4: [*L.X]: L has no X", "a/a.go:4: [C.X]: C has no X"}},
		{"own package", doc("// [a.U]"), []string{"a/a.go:4: [a.U]: package a has no U"}},
		{"imported", append(doc("// [b] [b.B] [b.B.X] [io.Anything]"), b...), nil},
		{"imported, no name", append(doc("// [b.U] [b.B.Y] [b.B.unexported]"), b...), []string{"a/a.go:4: [b.U]: package b has no U",
			"a/a.go:4: [b.B.Y]: B has no Y", "a/a.go:4: [b.B.unexported]: unexported is not exported"}},
		{"imported, not there", doc("// [b.B]"), []string{"a/a.go:4: [b.B]: " + core + "/b is not there"}},
		{"not imported", doc("// [c.B] [http.Handler]"), []string{"a/a.go:4: [c.B]: package a neither has nor imports c",
			"a/a.go:4: [http.Handler]: package a neither has nor imports http"}},
		{"not imported, but known", doc("// [errors.Is] [net/http.Handler]"), nil},
		{"by path", append(doc("// ["+core+"/b.B] ["+core+"/b.U]"), b...), []string{"a/a.go:4: [" + core + "/b.U]: package b has no U"}},
		{"two imports", append(doc("// [b.B]"), append(b, "a/c.go", "package a\nimport b \"c\"")...),
			[]string{"a/a.go:4: [b.B]: files import " + core + "/b and c as b"}},
		{"letter", doc("// [T]s and m[T]s"), []string{"a/a.go:4: [T]: a letter follows, so this is not a link"}},
		{"no link", doc("// m[U] and []U and [a b] [1] and [the site]:\n//\n//\tx [U]\n//\n// [the site]: https://x"), nil},
		{"list", doc("// These:\n//   - [U]"), []string{"a/a.go:5: [U]: package a neither has nor imports U"}},
		{"field", []string{"a.go", "package a\ntype T struct {\n\t// [U]\n\tF int // [u]\n}"}, []string{
			"a.go:3: [U]: package a neither has nor imports U", "a.go:4: [u]: package a neither has nor imports u"}},
		{"package", []string{"a.go", "// Package a has [U].\npackage a"}, []string{"a.go:1: [U]: package a neither has nor imports U"}},
		{"inside a function", []string{"a.go", "package a\nfunc f() {\n\t// [U]\n\tvar x int\n}"}, nil},
		{"test", []string{"a.go", "package a\n// [b]\nvar a int", "a_test.go", "package a\n// [a]\nvar b int"}, []string{
			"a.go:2: [b]: package a neither has nor imports b"}},
		{"test outside", []string{"a.go", "package a\nvar A int", "a_test.go", "package a_test\n// [A]\nvar b int"}, []string{
			"a_test.go:2: [A]: package a_test neither has nor imports A"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := deadLinks(book(t, tt.files...)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
