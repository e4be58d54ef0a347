package repo

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// clocksFile has the kind of each function of the tests that reads the real clock without the lane:
//   - condition: it waits for an event within a bound that only a hang exceeds, or a slow machine only makes it
//     take longer: it compares with a least time, wants a short context to end, or notes when something was.
//   - virtual: it runs in bubbles of testing/synctest only, which the walk cannot see.
const clocksFile = "testdata/clocks.txt"

// A test that reads the real clock says how it bears a slow machine.
func TestClocks(t *testing.T) {
	text, err := os.ReadFile(clocksFile)
	if err != nil {
		t.Fatal(err)
	}
	report(t, unsorted(golang(load(t)), string(text)))
}

// unsorted finds the functions that are of no kind, and lines about functions that need none.
func unsorted(files []*file, list string) (problems []string) {
	kinds := map[string]string{}
	last := ""
	for line := range strings.Lines(list) {
		about, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		i := strings.LastIndex(about, " ")
		if i < 0 || why == "" || about[i+1:] != "condition" && about[i+1:] != "virtual" {
			problems = append(problems, fmt.Sprintf("%s: %q is not PATH FUNCTION KIND: WHY", clocksFile, strings.TrimSpace(line)))
			continue
		}
		if about < last {
			problems = append(problems, fmt.Sprintf("%s: %q is not in order", clocksFile, about))
		}
		last, kinds[about[:i]] = about, about[i+1:]
	}
	used := map[string]bool{}
	for _, c := range clocks(files) {
		key := c.file.path + " " + c.name
		kind := kinds[key]
		used[key] = used[key] || !c.lane
		if len(c.sleeps) > 0 && !c.lane && kind != "virtual" {
			problems = append(problems, fmt.Sprintf("%s: a test sleeps; wait for a condition, use testing/synctest, or, if time is the subject, "+
				"awake.Lane", c.file.at(c.sleeps[0])))
		}
		if !c.lane && kind == "" {
			problems = append(problems, fmt.Sprintf("%s: %s reads the real clock; use testing/synctest, take the lane by awake.Lane, "+
				"or say in %s why it is a condition", c.file.at(c.reads[0]), c.name, clocksFile))
		}
	}
	for line := range strings.Lines(list) {
		if key := strings.Join(strings.Fields(line)[:2], " "); kinds[key] != "" && !used[key] {
			problems = append(problems, fmt.Sprintf("%s: %s does not read the real clock any more, or has the lane; remove its line", clocksFile, key))
		}
	}
	for _, f := range files {
		if f.testing() {
			problems = append(problems, lanes(f)...)
		}
	}
	return problems
}

// lanes finds functions that take the lane before t.Parallel: they would hold it while the tests run that are not parallel.
func lanes(f *file) (problems []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			body = n.Body
		case *ast.FuncLit:
			body = n.Body
		}
		if body == nil {
			return true
		}
		lane := token.NoPos
		for _, stmt := range body.List {
			ast.Inspect(stmt, func(n ast.Node) bool {
				if _, ok := n.(*ast.FuncLit); ok {
					return false
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, _ := call.Fun.(*ast.SelectorExpr)
				switch {
				case selects(call.Fun, f.imported(awakePath), "Lane"):
					lane = call.Pos()
				case lane.IsValid() && sel != nil && sel.Sel.Name == "Parallel":
					problems = append(problems, fmt.Sprintf("%s: the lane is taken before t.Parallel", f.at(lane)))
				}
				return true
			})
		}
		return true
	})
	return problems
}

func TestClocksCheck(t *testing.T) {
	const head = "package x\nimport \"context\"\nimport \"time\"\nimport \"testing/synctest\"\nimport \"" + awakePath + "\"\n"
	reads := func(name string) string {
		return "x_test.go:6: " + name + " reads the real clock; use testing/synctest, take the lane by awake.Lane, or say in " + clocksFile +
			" why it is a condition"
	}
	const sleeps = "x_test.go:6: a test sleeps; wait for a condition, use testing/synctest, or, if time is the subject, awake.Lane"
	for _, s := range []struct {
		name, text, list string
		want             []string
	}{
		{name: "now", text: "func TestA() { time.Now() }", want: []string{reads("TestA")}},
		{name: "listed", text: "func TestA() { time.Now() }", list: "x_test.go TestA condition: a stamp\n"},
		{name: "by a helper", text: "func a() { time.Now() }\nfunc TestA() { a() }", want: []string{reads("a")}},
		{name: "by a method", text: "func (x t) a() { time.Now() }\nfunc TestA() { t{}.a() }", want: []string{reads("a")}},
		{name: "nobody calls it", text: "func a() { time.Now() }"},
		{name: "by a variable's name", text: "func a() { time.Now() }\nfunc TestA() { a := 1; _ = a }"},
		{name: "example", text: "func ExampleA() { time.Since(x) }", want: []string{reads("ExampleA")}},
		{name: "benchmark", text: "func BenchmarkA() { time.Now() }"},
		{name: "in a bubble", text: "func TestA() { synctest.Test(t, func() { time.Now(); a() }) }\nfunc a() { time.Now() }"},
		{name: "in a bubble by a helper", text: "func in(t, f func()) { synctest.Test(t, func() { f() }) }\nfunc TestA() { in(t, func() { time.Now() }) }"},
		{name: "short context", text: "func TestA() { context.WithTimeout(ctx, 5*time.Second) }", want: []string{reads("TestA")}},
		{name: "long context", text: "func TestA() { context.WithTimeout(ctx, time.Minute) }"},
		{name: "a name for a long time", text: "const l = 3*time.Minute/2\nfunc TestA() { time.After(l) }"},
		{name: "a name for a short time", text: "func TestA() { const l = time.Second; time.NewTimer(l) }", want: []string{reads("TestA")}},
		{name: "a far deadline", text: "func TestA() { c.SetDeadline(time.Now().Add(time.Minute)) }"},
		{name: "a near deadline", text: "func TestA() { c.SetDeadline(time.Now().Add(time.Second)) }", want: []string{reads("TestA")}},
		{name: "awake", text: "func TestA() { awake.For(time.Second) }", want: []string{reads("TestA")}},
		{name: "lane", text: "func TestA() { awake.Lane(t); <-time.After(1) }"},
		{name: "told of the lane", text: "func a(l *awake.Turn) { time.Now() }\nfunc TestA() { a(awake.Lane(t)) }"},
		{name: "sleeps", text: "func TestA() { <-time.After(time.Hour) ; time.Now() }", list: "x_test.go TestA condition: a\n", want: []string{sleeps}},
		{name: "sleeps in a loop", text: "func TestA() { for ; ; <-time.NewTimer(1).C { } }", list: "x_test.go TestA condition: a\n", want: []string{sleeps}},
		{name: "sleeps in a bubble", text: "func TestA() { <-time.After(1) }", list: "x_test.go TestA virtual: a\n"},
		{name: "no longer", text: "func TestA() { }", list: "x_test.go TestA condition: a\n",
			want: []string{clocksFile + ": x_test.go TestA does not read the real clock any more, or has the lane; remove its line"}},
		{name: "lane and listed", text: "func TestA() { awake.Lane(t); time.Now() }", list: "x_test.go TestA condition: a\n",
			want: []string{clocksFile + ": x_test.go TestA does not read the real clock any more, or has the lane; remove its line"}},
		{name: "no words", text: "func TestA() { time.Now() }", list: "x_test.go TestA condition\n",
			want: []string{clocksFile + `: "x_test.go TestA condition" is not PATH FUNCTION KIND: WHY`, reads("TestA")}},
		{name: "before parallel", text: "func TestA() { awake.Lane(t); t.Parallel() }", want: []string{"x_test.go:6: the lane is taken before t.Parallel"}},
		{name: "after parallel", text: "func TestA() { t.Parallel(); awake.Lane(t); t.Run(x, func() { t.Parallel() }) }"},
	} {
		t.Run(s.name, func(t *testing.T) {
			f, err := parse("x_test.go", head+s.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := unsorted([]*file{f}, s.list); !slices.Equal(got, s.want) {
				t.Errorf("got %q, want %q", got, s.want)
			}
		})
	}
}
