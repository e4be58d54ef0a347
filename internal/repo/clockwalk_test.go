package repo

import (
	"cmp"
	"go/ast"
	"go/token"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const awakePath = "github.com/stilelock/stile/internal/awake"

// long is a time that only a hang exceeds: a test may wait this long for a condition without a reason.
const long = 30 * time.Second

// readers are the functions of package time by which a test reads the real clock, with the place of the argument that may be
// long, or -1.
var readers = map[string]int{
	"Now": -1, "Since": -1, "Until": -1, "After": 0, "NewTimer": 0, "AfterFunc": 0, "Tick": -1, "NewTicker": -1,
}

var units = map[string]time.Duration{
	"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute,
	"Hour": time.Hour,
}

// A clocked is a function of the tests that reads the real clock outside of a bubble of testing/synctest.
type clocked struct {
	file   *file
	name   string
	reads  []token.Pos
	sleeps []token.Pos // a timer is all that it waits for
	lane   bool        // it has the lane, or is told so by a caller
}

// A suite has the declarations of one folder's tests.
type suite struct {
	funcs  map[string][]*declared        // by name; methods too
	makers map[string]bool               // which of them run a parameter in a bubble
	consts map[*file]map[string]ast.Expr // by file, where the same name may be another's elsewhere
}

// A declared is one function or method.
type declared struct {
	file *file
	decl *ast.FuncDecl
	real bool // is reached outside of a bubble
}

// clocks finds the functions that read the real clock, of all tests of all folders.
func clocks(files []*file) (list []clocked) {
	folders := map[string][]*file{}
	for _, f := range files {
		if f.testing() {
			folders[path.Dir(f.path)] = append(folders[path.Dir(f.path)], f)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		list = append(list, gather(folders[dir]).clocks()...)
	}
	return list
}

// imports reports whether the file uses a package by this name.
func (f *file) imports(name string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool {
		p, _ := strconv.Unquote(spec.Path.Value)
		return f.imported(p) == name
	})
}

// gather reads what the files of one folder declare.
func gather(files []*file) *suite {
	s := &suite{funcs: map[string][]*declared{}, makers: map[string]bool{}, consts: map[*file]map[string]ast.Expr{}}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				s.funcs[d.Name.Name] = append(s.funcs[d.Name.Name], &declared{file: f, decl: d})
			}
		}
		s.consts[f] = map[string]ast.Expr{}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
				for i, name := range v.Names {
					s.consts[f][name.Name] = v.Values[i]
				}
			}
			return true
		})
	}
	for n := -1; n < len(s.makers); { // until a round finds none
		n = len(s.makers)
		for name, all := range s.funcs {
			if slices.ContainsFunc(all, s.makes) {
				s.makers[name] = true
			}
		}
	}
	return s
}

// makes reports whether a function runs one of its parameters in a bubble.
func (s *suite) makes(d *declared) (found bool) {
	params := map[string]bool{}
	for _, p := range d.decl.Type.Params.List {
		for _, name := range p.Names {
			params[name.Name] = true
		}
	}
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && s.bubble(d.file, call) {
			for _, arg := range call.Args[1:] {
				ast.Inspect(arg, func(n ast.Node) bool {
					id, ok := n.(*ast.Ident)
					found = found || ok && params[id.Name]
					return !found
				})
			}
		}
		return !found
	})
	return found
}

// bubble reports whether a call runs what it is given in a bubble.
func (s *suite) bubble(f *file, call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return s.makers[fun.Name]
	case *ast.SelectorExpr:
		return selects(fun, f.imported("testing/synctest"), "Test") || s.makers[fun.Sel.Name]
	}
	return false
}

// begins reports whether a function is called by package testing, or by the tests of other folders.
func (d *declared) begins() bool {
	if d.decl.Recv != nil {
		return false
	}
	name := d.decl.Name
	if !d.file.test() {
		return name.IsExported() && strings.HasPrefix(d.file.path, "internal/")
	}
	return name.Name == "init" || slices.ContainsFunc([]string{"Test", "Example", "Fuzz"}, func(p string) bool {
		return strings.HasPrefix(name.Name, p)
	})
}

// clocks follows the tests' calls, as names tell, and finds the functions that they reach and that read the clock.
func (s *suite) clocks() (list []clocked) {
	var next []*declared
	reach := func(d *declared) {
		if !d.real {
			d.real = true
			next = append(next, d)
		}
	}
	for _, all := range s.funcs {
		for _, d := range all {
			if d.begins() {
				reach(d)
			}
		}
	}
	for ; len(next) > 0; next = next[1:] {
		for name, method := range s.names(next[0]) {
			for _, to := range s.funcs[name] {
				if method == (to.decl.Recv != nil) {
					reach(to)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.funcs)) {
		for _, d := range s.funcs[name] {
			if c := s.clocked(d); d.real && len(c.reads) > 0 {
				list = append(list, c)
			}
		}
	}
	slices.SortFunc(list, func(a, b clocked) int {
		return cmp.Or(strings.Compare(a.file.path, b.file.path), cmp.Compare(a.reads[0], b.reads[0]))
	})
	return list
}

// hidden are the names by which a function knows something else than the functions of its folder.
func (d *declared) hidden() map[string]bool {
	hidden := map[string]bool{}
	hide := func(list ...ast.Expr) {
		for _, e := range list {
			if id, ok := e.(*ast.Ident); ok {
				hidden[id.Name] = true
			}
		}
	}
	ast.Inspect(d.decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				hide(n.Lhs...)
			}
		case *ast.RangeStmt:
			hide(n.Key, n.Value)
		case *ast.Field:
			for _, id := range n.Names {
				hide(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				hide(id)
			}
		}
		return true
	})
	return hidden
}

// names yields what a function names outside of bubbles, and whether it is a method, since it is selected from a value.
func (s *suite) names(d *declared) iter.Seq2[string, bool] {
	hidden, apart := d.hidden(), map[*ast.Ident]bool{} // apart are keys, and what is selected
	return func(yield func(string, bool) bool) {
		done := false
		s.inspect(d, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				apart[n.Sel] = true
				x, ok := n.X.(*ast.Ident)
				if !ok || hidden[x.Name] || !d.file.imports(x.Name) {
					done = done || !yield(n.Sel.Name, true)
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					apart[id] = true
				}
			case *ast.Ident:
				if !apart[n] && !hidden[n.Name] {
					done = done || !yield(n.Name, false)
				}
			}
		})
	}
}

// inspect visits what a function does outside of bubbles.
func (s *suite) inspect(d *declared, visit func(ast.Node)) {
	ast.Inspect(d.decl.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && s.bubble(d.file, call) {
			return false
		}
		visit(n)
		return true
	})
}

// clocked finds how a function reads the clock.
func (s *suite) clocked(d *declared) clocked {
	c := clocked{file: d.file, name: d.decl.Name.Name, lane: d.told()}
	awake := d.file.imported(awakePath)
	chosen := map[ast.Stmt]bool{} // by a select, among others
	far := map[ast.Expr]bool{}    // calls of time.Now to which a long time is added
	s.inspect(d, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && len(n.Args) == 1 && !s.short(d.file, n.Args[0]) {
				far[sel.X] = true
			}
			if !far[n] && s.reads(d.file, n) {
				c.reads = append(c.reads, n.Pos())
			}
			c.lane = c.lane || selects(n.Fun, awake, "Lane")
		case *ast.CommClause:
			chosen[n.Comm] = true
		case *ast.ExprStmt: // also the last part of a for
			if !chosen[n] && timer(d.file, n.X) {
				c.sleeps, c.reads = append(c.sleeps, n.Pos()), append(c.reads, n.Pos())
			}
		}
	})
	return c
}

// told reports whether a function is given the turn of a test that has the lane.
func (d *declared) told() bool {
	return slices.ContainsFunc(d.decl.Type.Params.List, func(p *ast.Field) bool {
		star, ok := p.Type.(*ast.StarExpr)
		return ok && selects(star.X, d.file.imported(awakePath), "Turn")
	})
}

// reads reports whether a call reads the time, or is over at one that is short.
func (s *suite) reads(f *file, call *ast.CallExpr) bool {
	clock, contexts := f.imported("time"), f.imported("context")
	for name, arg := range readers {
		if selects(call.Fun, clock, name) {
			return arg < 0 || s.short(f, call.Args[arg])
		}
	}
	if selects(call.Fun, contexts, "WithTimeout") || selects(call.Fun, contexts, "WithTimeoutCause") {
		return s.short(f, call.Args[1])
	}
	return selects(call.Fun, f.imported(awakePath), "For") && s.short(f, call.Args[0])
}

// timer reports whether an expression waits for a timer that was made for nothing else.
func timer(f *file, e ast.Expr) bool {
	receive, ok := e.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	x := receive.X
	if sel, ok := x.(*ast.SelectorExpr); ok && sel.Sel.Name == "C" {
		x = sel.X
	}
	call, ok := x.(*ast.CallExpr)
	clock := f.imported("time")
	return ok && (selects(call.Fun, clock, "After") || selects(call.Fun, clock, "NewTimer") || selects(call.Fun, clock, "Tick") ||
		selects(call.Fun, f.imported(awakePath), "For"))
}

// short reports whether a length of time may be shorter than what only a hang meets.
func (s *suite) short(f *file, e ast.Expr) bool {
	n, ok := s.value(f, e, 0)
	return !ok || n < float64(long)
}

// value computes a length of time in nanoseconds, as far as constants tell.
func (s *suite) value(f *file, e ast.Expr, deep int) (float64, bool) {
	if deep > 10 {
		return 0, false
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return s.value(f, e.X, deep+1)
	case *ast.BasicLit:
		n, err := strconv.ParseFloat(strings.ReplaceAll(e.Value, "_", ""), 64)
		return n, err == nil
	case *ast.SelectorExpr:
		unit, ok := units[e.Sel.Name]
		return float64(unit), ok
	case *ast.Ident:
		return s.constant(f, e.Name, deep)
	case *ast.BinaryExpr:
		x, ok := s.value(f, e.X, deep+1)
		y, too := s.value(f, e.Y, deep+1)
		return combine(e.Op, x, y), ok && too
	}
	return 0, false
}

// constant computes what a file, or else another of the folder, gives a name to.
func (s *suite) constant(f *file, name string, deep int) (float64, bool) {
	if v, ok := s.consts[f][name]; ok {
		return s.value(f, v, deep+1)
	}
	for other, consts := range s.consts {
		if v, ok := consts[name]; ok {
			return s.value(other, v, deep+1)
		}
	}
	return 0, false
}

func combine(op token.Token, x, y float64) float64 {
	switch op {
	case token.MUL:
		return x * y
	case token.QUO:
		return x / y
	case token.ADD:
		return x + y
	case token.SUB:
		return x - y
	}
	return 0
}
