package repo

import (
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNoSkips(t *testing.T)    { report(t, skips(golang(load(t)))) }
func TestNoSleeps(t *testing.T)   { report(t, sleeps(golang(load(t)))) }
func TestLengths(t *testing.T)    { report(t, lengths(golang(load(t)))) }
func TestFormatted(t *testing.T)  { report(t, unformatted(golang(load(t)))) }
func TestPlainWords(t *testing.T) { report(t, words(load(t))) }

// skips finds tests that skip themselves: what a test needs and does not find is a failure.
func skips(files []*file) (problems []string) {
	for _, f := range files {
		if !f.testing() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				problems = append(problems, fmt.Sprintf("%s: a test skips itself", f.at(s.Pos())))
			}
			return true
		})
	}
	return problems
}

// sleeps finds tests that sleep on the real clock. Inside a call of synctest.Test sleeping moves the virtual one.
func sleeps(files []*file) (problems []string) {
	for _, f := range files {
		if !f.testing() {
			continue
		}
		clock, bubble := f.imported("time"), f.imported("testing/synctest")
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && selects(call.Fun, bubble, "Test") {
				return false
			}
			if e, ok := n.(ast.Expr); ok && selects(e, clock, "Sleep") {
				problems = append(problems,
					fmt.Sprintf("%s: a test sleeps; wait for a condition, or use testing/synctest", f.at(n.Pos())))
			}
			return true
		})
	}
	return problems
}

// selects reports whether an expression is pkg.name.
func selects(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name || pkg == "" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

const (
	maxFile = 500  // lines of a file that is not a test
	maxRoot = 1600 // lines of the root package without its tests
)

// lengths finds files, and a root package, that are too long to be read in one sitting.
func lengths(files []*file) (problems []string) {
	sum := 0
	for _, f := range files {
		if f.test() {
			continue
		}
		n := strings.Count(f.text, "\n")
		if n > maxFile {
			problems = append(problems, fmt.Sprintf("%s: %d lines, more than %d", f.path, n, maxFile))
		}
		if path.Dir(f.path) == "." {
			sum += n
		}
	}
	if sum >= maxRoot {
		problems = append(problems, fmt.Sprintf("the root package has %d lines; the limit is %d", sum, maxRoot))
	}
	return problems
}

// unformatted finds files that gofmt would change.
func unformatted(files []*file) (problems []string) {
	for _, f := range files {
		if got, err := format.Source([]byte(f.text)); err != nil || string(got) != f.text {
			problems = append(problems, fmt.Sprintf("%s: gofmt would change it", f.path))
		}
	}
	return problems
}

var (
	// The words are put together here so that this file does not hold them.
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	machine    = regexp.MustCompile(`(^|[^\w.})-])/(home|root|work|Users)/\w`)
)

// words finds what has no place in a text that is done: marks of unfinished work, and folders of somebody's machine.
func words(files []*file) (problems []string) {
	for _, f := range files {
		if path.Ext(f.path) == ".sum" {
			continue // checksums are random letters
		}
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			if word := unfinished.FindString(line); word != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: unfinished: %s", f.path, n, word))
			}
			if machine.MatchString(line) {
				problems = append(problems, fmt.Sprintf("%s:%d: a folder of one machine", f.path, n))
			}
		}
	}
	return problems
}

func TestSkipsCheck(t *testing.T) {
	found := func(at string) []string { return []string{at + ": a test skips itself"} }
	try(t, skips, []sample{
		{name: "skip", path: "x_test.go", text: "package x\nfunc f() { t.Skip() }", want: found("x_test.go:2")},
		{name: "skipf", path: "x_test.go", text: "package x\nfunc f() {\n\tb.Skipf(\"%d\", 1)\n}",
			want: found("x_test.go:3")},
		{name: "as a value", path: "x_test.go", text: "package x\nvar f = t.SkipNow", want: found("x_test.go:2")},
		{name: "helper of tests", text: "package x\nimport \"testing\"\nfunc f(t *testing.T) { t.SkipNow() }",
			want: found("x.go:3")},
		{name: "not a test", text: "package x\nfunc f() { s.Skip() }"},
		{name: "comment", path: "x_test.go", text: "package x\n// t.Skip() is not used."},
	})
}

func TestSleepsCheck(t *testing.T) {
	found := func(at string) []string {
		return []string{at + ": a test sleeps; wait for a condition, or use testing/synctest"}
	}
	const bubble = "package x\nimport \"testing/synctest\"\nimport \"time\"\n"
	try(t, sleeps, []sample{
		{name: "sleep", path: "x_test.go", text: "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }",
			want: found("x_test.go:3")},
		{name: "renamed", path: "x_test.go", text: "package x\nimport z \"time\"\nfunc f() { z.Sleep(1) }",
			want: found("x_test.go:3")},
		{name: "as a value", path: "x_test.go", text: "package x\nimport \"time\"\nvar f = time.Sleep",
			want: found("x_test.go:3")},
		{name: "helper of tests", text: "package x\nimport \"testing\"\nimport \"time\"\nfunc f() { time.Sleep(1) }",
			want: found("x.go:4")},
		{name: "virtual", path: "x_test.go", text: bubble + "func f() { synctest.Test(t, func() { time.Sleep(1) }) }"},
		{name: "beside virtual", path: "x_test.go", text: bubble + "func f() { time.Sleep(1) }", want: found("x_test.go:4")},
		{name: "not a test", text: "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }"},
	})
}

func TestLengthsCheck(t *testing.T) {
	lines := func(n int) string { return "package x\n" + strings.Repeat("\n", n-1) }
	try(t, lengths, []sample{
		{name: "short", text: lines(500)},
		{name: "long", path: "a/x.go", text: lines(501), want: []string{"a/x.go: 501 lines, more than 500"}},
		{name: "long test", path: "a/x_test.go", text: lines(501)},
		{name: "long folder", path: "a/x.go", text: lines(1600), want: []string{"a/x.go: 1600 lines, more than 500"}},
		{name: "long root", text: lines(1600), want: []string{
			"x.go: 1600 lines, more than 500", "the root package has 1600 lines; the limit is 1600"}},
	})
}

func TestFormattedCheck(t *testing.T) {
	try(t, unformatted, []sample{
		{name: "formatted", text: "package x\n"},
		{name: "not formatted", text: "package  x\n", want: []string{"x.go: gofmt would change it"}},
	})
}

func TestPlainWordsCheck(t *testing.T) {
	unfinished := func(word string) []string { return []string{"x.md:2: unfinished: " + word} }
	folder := []string{"x.md:1: a folder of one machine"}
	var samples []sample
	for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"} {
		samples = append(samples,
			sample{name: word, path: "x.md", text: "a\n " + word + "(b): c", want: unfinished(word)},
			sample{name: word + " within a word", path: "x.md", text: "mktemp -t X" + word + "X"},
			sample{name: word + " in checksums", path: "go.sum", text: word})
	}
	for _, dir := range []string{"home", "root", "work", "Users"} {
		samples = append(samples,
			sample{name: dir, path: "x.md", text: "cd /" + dir + "/ann", want: folder},
			sample{name: dir + " in a URL", path: "x.md", text: "sqlite:///" + dir + "/ann", want: folder},
			sample{name: dir + " within a path", path: "x.md", text: "net/" + dir + "/ann $(D)/" + dir + "/ann"})
	}
	try(t, words, samples)
}
