package repo

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The table of faults says of each store what shows that a fault does no harm: a test that is there, or a reason why there
// is none. The page is made of the table: go test ./internal/repo -update.

const (
	faultTable = "internal/repo/testdata/faults.txt"
	faultPage  = "docs/evidence/faults.md"
)

func TestFaultTable(t *testing.T) {
	files := load(t)
	source := named(files, faultTable)
	if source == nil {
		t.Fatalf("%s is not there", faultTable)
	}
	table, problems := parseFaults(source.text)
	report(t, append(problems, untested(table, files)...))
	if t.Failed() {
		return
	}
	want, golden := table.page(), filepath.Join(root(t), faultPage)
	if *update {
		if err := os.WriteFile(golden, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(golden); string(got) != want {
		t.Errorf("%s is not what %s says: go test ./internal/repo -update", faultPage, faultTable)
	}
}

// A faultRow is one thing that may go wrong.
type faultRow struct {
	line           int
	title, outcome string
	stores         []string // that it can befall, by id
	others         string   // why it cannot befall the others
	client         []faultTest
	cases          []string
	tests          map[string][]faultTest // by store
	exceptions     map[string]string      // why a store has no test
}

// A faultTest is a test by its folder and its name, which may have the name of a part after a stroke.
type faultTest struct{ dir, name string }

type faultStore struct {
	id, words string
	contract  faultTest
	lacks     []string // powers that cases of the contract may need
}

type faultBook struct {
	stores []faultStore
	rows   []*faultRow
	needs  map[string][]string // the powers that a case of the contract needs
}

// store returns a store by its id.
func (b *faultBook) store(id string) *faultStore {
	if i := slices.IndexFunc(b.stores, func(s faultStore) bool { return s.id == id }); i >= 0 {
		return &b.stores[i]
	}
	return nil
}

// parseFaults reads the table, and returns which of its lines cannot be read.
func parseFaults(text string) (b *faultBook, problems []string) {
	b = &faultBook{}
	var row *faultRow
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		switch id, isStore := strings.CutPrefix(key, "store "); {
		case isStore:
			words, contract, _ := strings.Cut(value, " | ")
			b.stores = append(b.stores, faultStore{id: id, words: words, contract: testAt(contract)})
			continue
		case key == "row":
			row = &faultRow{line: n, title: value, tests: map[string][]faultTest{}, exceptions: map[string]string{}}
			b.rows = append(b.rows, row)
			continue
		}
		if row == nil || value == "" || !row.add(b, key, value) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q is not in order", faultTable, n, line))
		}
	}
	return b, problems
}

func testAt(text string) faultTest {
	dir, name, _ := strings.Cut(text, " ")
	return faultTest{dir, name}
}

// add takes one line of a row, and reports whether there is such a line.
func (r *faultRow) add(b *faultBook, key, value string) bool {
	switch key {
	case "outcome":
		r.outcome = value
	case "else":
		r.others = value
	case "client":
		r.client = append(r.client, testAt(value))
	case "case":
		r.cases = append(r.cases, strings.Fields(value)...)
	case "stores":
		r.stores = strings.Fields(value)
		if value == "all" {
			r.stores = nil
			for _, s := range b.stores {
				r.stores = append(r.stores, s.id)
			}
		}
	default:
		if id, ok := strings.CutSuffix(key, " -"); ok {
			r.exceptions[id] = value
			return b.store(id) != nil
		}
		r.tests[key] = append(r.tests[key], testAt(value))
		return b.store(key) != nil
	}
	return true
}

// untested finds tests of the table that are not there, and stores that a row leaves out without a reason.
func untested(b *faultBook, files []*file) (problems []string) {
	b.needs = needs(files)
	for i := range b.stores {
		s := &b.stores[i]
		lacks, says := lacking(files, s.contract)
		if s.lacks = lacks; !says {
			problems = append(problems, fmt.Sprintf("%s: %s of %s does not say what the store lacks", faultTable, s.contract.name, s.contract.dir))
		}
		if !declares(files, s.contract, "drivertest.Run(") && !declares(files, s.contract, "drivertest.Run, ") {
			problems = append(problems, fmt.Sprintf("%s: %s of %s does not run the contract", faultTable, s.contract.name, s.contract.dir))
		}
	}
	problems = append(problems, b.passedOver()...)
	for _, r := range b.rows {
		report := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: ", faultTable, r.line, r.title)+fmt.Sprintf(format, args...))
		}
		if r.outcome == "" {
			report("no outcome")
		}
		if len(r.stores) < len(b.stores) && r.others == "" {
			report("no reason why the other stores are left out")
		}
		for _, name := range r.cases {
			if !quoted(files, "driver/drivertest", name) {
				report("the contract has no case %s", name)
			}
		}
		for _, test := range r.all() {
			if !exists(files, test) {
				report("%s has no test %s", test.dir, test.name)
			}
		}
		problems = append(problems, r.uneven(b)...)
	}
	return problems
}

// uneven finds stores of a row that have neither a test nor a reason, or both, or do not belong to it.
func (r *faultRow) uneven(b *faultBook) (problems []string) {
	for _, s := range b.stores {
		_, excepted := r.exceptions[s.id]
		in, tested := slices.Contains(r.stores, s.id), len(r.tests[s.id])+len(r.casesOn(b, s.id))+len(r.client) > 0
		says := wrongWith(in, tested, excepted, len(r.tests[s.id]) > 0)
		if says == "" {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s:%d: %s: %s %s", faultTable, r.line, r.title, s.id, says))
	}
	for _, id := range r.stores {
		if b.store(id) == nil {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: there is no store %s", faultTable, r.line, r.title, id))
		}
	}
	return problems
}

// wrongWith returns the mistake of a store in a row, or "".
func wrongWith(in, tested, excepted, itsOwn bool) string {
	switch {
	case in && !tested && !excepted:
		return "has neither a test nor a reason"
	case in && tested && excepted:
		return "has a test and a reason why there is none"
	case !in && (excepted || itsOwn):
		return "is not among the stores of the row"
	}
	return ""
}

// all returns the tests that a row names.
func (r *faultRow) all() []faultTest {
	list := slices.Clone(r.client)
	for _, tests := range r.tests {
		list = append(list, tests...)
	}
	slices.SortFunc(list, func(a, b faultTest) int { return strings.Compare(a.dir+" "+a.name, b.dir+" "+b.name) })
	return list
}

// exists reports whether there is a test, and the part of it that is named.
func exists(files []*file, test faultTest) bool {
	name, part, divided := strings.Cut(test.name, "/")
	return declares(files, faultTest{test.dir, name}, "") && (!divided || quoted(files, test.dir, part) || quoted(files, "driver/drivertest", part))
}

// declares reports whether a test of a folder is there, with some text in its body.
func declares(files []*file, test faultTest, text string) bool {
	for _, f := range files {
		if f.syntax == nil || !f.test() || path.Dir(f.path) != test.dir {
			continue
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Name.Name != test.name {
				continue
			}
			from, to := f.fset.Position(fn.Body.Pos()).Offset, f.fset.Position(fn.Body.End()).Offset
			if strings.Contains(f.text[from:to], text) {
				return true
			}
		}
	}
	return false
}

// quoted reports whether a folder's Go files have a text between quotes, as the names of parts and cases are.
func quoted(files []*file, dir, text string) bool {
	return slices.ContainsFunc(files, func(f *file) bool {
		return f.syntax != nil && path.Dir(f.path) == dir && strings.Contains(f.text, `"`+text+`"`)
	})
}

func TestFaultTableCheck(t *testing.T) {
	const head = "store a: A | pkg TestContract\nstore b: B | pkg TestLacking\n"
	tests := []string{"pkg/x_test.go", "package pkg\nfunc TestContract() { drive.Lacks(t, open); drivertest.Run() }\n" +
		"func TestLacking() { run(func() { drive.Lacks(t, open, driver.TraitOrder); drivertest.Run() }) }\nfunc TestOne() { run(\"part\") }",
		"driver/drivertest/cases.go", "package drivertest\nvar x = []Case{{\"Case\", \"s\", 0, f}, {\"Ordered\", \"s\", shared | ordered, f}}"}
	for _, tt := range []struct {
		name, rows string
		want       []string
	}{
		{"whole", "row: r\noutcome: o\nstores: all\na: pkg TestOne/part\nb -: why", nil},
		{"a case for all", "row: r\noutcome: o\nstores: all\ncase: Case", nil},
		{"no such test", "row: r\noutcome: o\nstores: a\nelse: e\na: pkg TestTwo", []string{":3: r: pkg has no test TestTwo"}},
		{"no such part", "row: r\noutcome: o\nstores: a\nelse: e\na: pkg TestOne/whole", []string{":3: r: pkg has no test TestOne/whole"}},
		{"a test elsewhere", "row: r\noutcome: o\nstores: a\nelse: e\na: . TestOne", []string{":3: r: . has no test TestOne"}},
		{"no such case", "row: r\noutcome: o\nstores: all\ncase: Other", []string{":3: r: the contract has no case Other"}},
		{"a store without a test", "row: r\noutcome: o\nstores: all\na: pkg TestOne", []string{":3: r: b has neither a test nor a reason"}},
		{"a store with both", "row: r\noutcome: o\nstores: a\nelse: e\na: pkg TestOne\na -: why",
			[]string{":3: r: a has a test and a reason why there is none"}},
		{"a store that is left out", "row: r\noutcome: o\nstores: a\nelse: e\na: pkg TestOne\nb: pkg TestOne",
			[]string{":3: r: b is not among the stores of the row"}},
		{"left out without a reason", "row: r\noutcome: o\nstores: a\na: pkg TestOne",
			[]string{":3: r: no reason why the other stores are left out"}},
		{"a case that the store skips", "row: r\noutcome: o\nstores: all\ncase: Ordered", []string{":3: r: b has neither a test nor a reason"}},
		{"a case that all run", "row: r\noutcome: o\nstores: all\ncase: Ordered Case", nil},
		{"no such store", "row: r\noutcome: o\nstores: a c\nelse: e\na: pkg TestOne\nc: pkg TestOne",
			[]string{":8: \"c: pkg TestOne\" is not in order", ":3: r: there is no store c"}},
		{"no outcome", "row: r\nstores: all\ncase: Case", []string{":3: r: no outcome"}},
		{"no row", "outcome: o", []string{`:3: "outcome: o" is not in order`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, got := parseFaults(head + tt.rows)
			got = append(got, untested(table, book(t, tests...))...)
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], faultTable)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	late := append(slices.Clone(tests), "driver/drivertest/late.go", "package drivertest\nvar x = []Case{{\"LateOne\", \"s\", 0, f}}")
	table, _ := parseFaults(head + "row: r\noutcome: o\nstores: all\ncase: Case")
	if got := untested(table, book(t, late...)); len(got) != 1 || !strings.Contains(got[0], "no row has the case LateOne") {
		t.Errorf("a case about a late request: got %q", got)
	}
	table, _ = parseFaults("store a: A | pkg TestOne")
	if got := untested(table, book(t, tests...)); len(got) != 2 || !strings.Contains(got[0], "does not say what") || !strings.Contains(got[1], "does not run the contract") {
		t.Errorf("a test that is not the contract: got %q", got)
	}
}
