package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type mutant struct {
	name, patch, dir string
	numbers          string   // the mistakes that it stands for
	files            []string // the files that it changes
	ways             []way    // the tests that its head names; the explorer looks for it if there are none
	overlay          string
}

// A way is a line of a patch's head that names a test which finds the mistake.
type way struct {
	kind  string // contract or test
	where string // the package
	test  string
}

var (
	changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)
	stands  = regexp.MustCompile(`(?m)^stands for: (.*)`)
	foundBy = regexp.MustCompile(`(?m)^found by: (\S+) (\S+) (.*)`)
)

// prepare makes the mutant's files, and checks that the changed packages compile.
func (m *mutant) prepare(top string) error {
	text, err := os.ReadFile(m.patch)
	if err != nil {
		return err
	}
	if err := m.head(text); err != nil {
		return err
	}
	replaced := map[string]string{}
	build := []string{"build", "-o", os.DevNull, "-overlay", filepath.Join(m.dir, "overlay.json")}
	for _, found := range changed.FindAllSubmatch(text, -1) {
		name := string(found[1])
		m.files = append(m.files, name)
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, source, 0o644); err != nil {
			return err
		}
		replaced[filepath.Join(top, name)] = to
		if pkg := packageOf(name); !slices.Contains(build, pkg) {
			build = append(build, pkg)
		}
	}
	apply := exec.Command("git", "apply", m.patch)
	apply.Dir = m.dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(filepath.Dir(m.dir)))
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not apply: %w: %s", err, out)
	}
	data, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	m.overlay = filepath.Join(m.dir, "overlay.json")
	if err := os.WriteFile(m.overlay, data, 0o644); err != nil {
		return err
	}
	if out, err := output("go", build...); err != nil {
		return fmt.Errorf("it does not compile: %w: %s", err, out)
	}
	return nil
}

// head reads a patch's head. A case of the contract must exist in package drivertest or guardtest.
func (m *mutant) head(text []byte) error {
	if found := stands.FindSubmatch(text); found != nil {
		m.numbers = string(found[1])
	}
	for _, found := range foundBy.FindAllSubmatch(text, -1) {
		w := way{string(found[1]), string(found[2]), string(found[3])}
		switch w.kind {
		case "test":
			if err := hasTest(w.where, w.test); err != nil {
				return err
			}
		case "contract":
			if err := cmp.Or(inContract(w.test), hasTest(w.where, w.test)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("found by: %q is none of contract, test", w.kind)
		}
		m.ways = append(m.ways, w)
	}
	return nil
}

// suites are the contracts of drivers and of guards, each with a pattern for the start of a case in its files.
var suites = map[string]string{"driver/drivertest": `(?m)^\s*(?:\{|Name:\s*)"%s",`, "internal/guardtest": `(?m)\bt\.Run\("%s"[,+ ]`}

// inContract returns an error unless a test is part of the contract. A case's name stands once, in one of the suites.
func inContract(test string) error {
	name := path.Base(test)
	if name == test {
		return nil // a test of the whole contract, of the model or of many cases
	}
	for suite, begin := range suites {
		files, err := filepath.Glob(suite + "/*.go")
		if err != nil {
			return err
		}
		named := regexp.MustCompile(fmt.Sprintf(begin, regexp.QuoteMeta(name)))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if named.Match(text) {
				return nil
			}
		}
	}
	return fmt.Errorf("found by: contract %s: neither package drivertest nor guardtest has a case %s", test, name)
}

// hasTest returns an error unless a package has this test.
func hasTest(where, test string) error {
	name, _, _ := strings.Cut(test, "/")
	files, err := filepath.Glob(where + "/*_test.go")
	if err != nil {
		return err
	}
	named := regexp.MustCompile(`(?m)^func (?:` + name + `)\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if named.Match(text) {
			return nil
		}
	}
	return fmt.Errorf("found by: package %s has no test %s", where, name)
}

// packageOf returns the package of a file: its folder's, or, for an embedded script, the nearest package above.
func packageOf(file string) string {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if sources, _ := filepath.Glob(filepath.Join(dir, "*.go")); len(sources) > 0 || dir == "." {
			return "./" + dir
		}
	}
}
