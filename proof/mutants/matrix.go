package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A finder looks for a mutant without knowledge of the mistake. So a mutant's own test is no finder.
type finder struct {
	name  string
	from  []string // the folders whose mistakes it can find
	try   func(m *mutant) finding
	seeds bool // it counts the seeds that found it
}

var finders = []finder{
	{name: "exploration", from: []string{"internal/engine", "internal/agenda"}, try: (*mutant).walk},
	{name: "seeds", from: []string{".", "internal/engine", "internal/claims", "internal/agenda", "driver", "store/memory"},
		try: func(m *mutant) finding {
			return m.suite("./proof/sim", bySeed.String())
		}, seeds: true},
	{name: "seeds", from: []string{"store/quorum"},
		try: func(m *mutant) finding { return m.suite("./store/quorum", bySeed.String()) }, seeds: true},
	{name: "seeds", from: []string{"jobs"},
		try: func(m *mutant) finding { return m.suite("./jobs", bySeed.String()) }, seeds: true},
	{name: "contract", from: []string{"driver", "store/memory", "internal/slab", "internal/table"},
		try: func(m *mutant) finding {
			return m.suite("./store/memory", "^(TestConformance|TestModel|TestConcurrent)$")
		}},
	{name: "contract", from: []string{"store/quorum"},
		try: func(m *mutant) finding {
			return m.suite("./store/quorum", "^(TestContract|TestContractOfMembers|TestConcurrent)$")
		}},
}

// columns are the columns of the kinds of tests that a patch's head can name.
var columns = map[string]string{"contract": "contract", "test": "own test"}

// bySeed are the tests that draw worlds from seeds: they were written for no mistake in particular.
var bySeed = regexp.MustCompile(`^(TestSimulation|TestStorm|TestFairWeather|TestFoulWeather|TestTokensRiseWhereGrantsExclude)$`)

// column returns the column of a way.
func (w way) column() string {
	if w.kind == "test" && bySeed.MatchString(w.test) {
		return "seeds"
	}
	return columns[w.kind]
}

// found has the findings by the names of the finders.
type found map[string]finding

// matrix lets every finder that can see a mutant look for it, then the test that its head names, and its own test if
// nothing else has found it.
func (m *mutant) matrix() found {
	all := found{}
	for _, f := range finders {
		if !m.changes(f.from) {
			continue
		}
		if r := f.try(m); r.err == nil {
			all[f.name] = r
		}
	}
	for _, w := range m.ways {
		name := w.column()
		if _, ok := all[name]; ok || name == "own test" && len(all) > 0 {
			continue
		}
		if r := m.try(w); r.err == nil {
			all[name] = r
		}
	}
	return all
}

// changes reports whether the mutant changes a file below one of some folders; "." means the root only.
func (m *mutant) changes(folders []string) bool {
	return slices.ContainsFunc(m.files, func(file string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool {
			return folder == "." && !strings.Contains(file, "/") || strings.HasPrefix(file, folder+"/")
		})
	})
}

var (
	failedSeed = regexp.MustCompile(`--- FAIL: (TestSimulation|TestStorm|TestFairWeather|TestFoulWeather)/(\d+)`)
	failedTest = regexp.MustCompile(`--- FAIL: ([^ ]+)`)
)

// suite runs the tests of a package that match, and returns the deepest that failed first.
func (m *mutant) suite(pkg, tests string) (f finding) {
	binary := filepath.Join(m.dir, "suite.test")
	if out, err := output("go", "test", "-c", "-vet=off", "-overlay", m.overlay, "-o", binary, pkg); err != nil {
		f.err = fmt.Errorf("%s does not build: %w: %s", pkg, err, out)
		return f
	}
	defer os.Remove(binary)
	cmd := exec.Command(binary, "-test.run", tests, "-test.timeout", limit.String())
	cmd.Dir = pkg
	start := time.Now()
	out, err := cmd.CombinedOutput()
	f.seconds = time.Since(start).Seconds()
	if err == nil {
		f.err = fmt.Errorf("%s of %s pass", tests, pkg)
		return f
	}
	seeds := map[string]bool{}
	for _, found := range failedSeed.FindAllSubmatch(out, -1) {
		seeds[string(found[1])+"/"+string(found[2])] = true
	}
	f.seeds = len(seeds)
	for _, found := range failedTest.FindAllSubmatch(out, -1) {
		if name := string(found[1]); len(name) > len(f.at) {
			f.at = name
		}
	}
	if f.at == "" {
		f.at = "a panic or a timeout"
	}
	return f
}

// cell is a finding in a word.
func (f finding) cell() string {
	switch {
	case f.seeds > 1:
		return fmt.Sprintf("%d seeds, %.1f s", f.seeds, f.seconds)
	case f.transitions != "":
		return fmt.Sprintf("%s transitions, %.1f s", f.transitions, f.seconds)
	}
	return fmt.Sprintf("`%s`, %.1f s", f.at, f.seconds)
}

// row returns a mutant's line of the table, with a mark if only its own test has found it.
func (f found) row(m *mutant) string {
	cell := func(name string) string {
		if r, ok := f[name]; ok {
			return r.cell()
		}
		return ""
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", m.name, m.numbers, cell("exploration"), cell("seeds"),
		cell("contract"), cell("own test"))
}
