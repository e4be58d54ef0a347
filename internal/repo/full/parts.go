package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// A part is made by one command, in less than an hour.
type part struct {
	name    string
	command []string
}

// targets are parts that are a target of the Makefile.
var targets = []string{"servers", "gofmt", "vet", "fix", "lint", "rules", "tidy-check", "build", "release-dry", "race",
	"explore",
	"models", "interop", "newer", "newest", "packages"}

// mutantsAtOnce is how many mutants are a part: each may take a minute.
const mutantsAtOnce = 24

var (
	chaosStore = regexp.MustCompile(`(?m)^\t"([a-z0-9-]+)": +func\(t servertest\.TB\) \*store \{`)
	servedTest = regexp.MustCompile(`(?m)^func (TestContractServed)\(`)
	adapterUse = regexp.MustCompile(`(?m)^\t\./([a-z]+)$`)
)

// list returns the parts, the most telling first.
func list(root string) (parts []part, err error) {
	add := func(name string, command ...string) { parts = append(parts, part{name, command}) }
	for _, name := range targets {
		add(name, "make", name)
	}
	add("demos", "make", "demos", "STORE=all")
	patches, err := filepath.Glob(filepath.Join(root, "proof/mutants/testdata/*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []string
	for _, file := range patches {
		mutants = append(mutants, strings.TrimSuffix(filepath.Base(file), ".patch"))
	}
	n := 0
	for some := range slices.Chunk(mutants, mutantsAtOnce) {
		n++
		add(fmt.Sprintf("mutants-%d", n), append([]string{"go", "run", "./proof/mutants"}, some...)...)
	}
	stores, err := found(root, "proof/chaos/stores.go", chaosStore)
	if err != nil {
		return nil, err
	}
	for _, store := range stores {
		add("chaos-"+store, "make", "chaos", "STORE="+store, "FOR=1m")
	}
	adapters, err := found(root, "adapters/go.work", adapterUse)
	if err != nil {
		return nil, err
	}
	for _, adapter := range adapters {
		add("adapter-"+adapter, "make", "adapters", "ONLY="+adapter)
	}
	served, err := filepath.Glob(filepath.Join(root, "store/*/served_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range served {
		if _, err := found(root, strings.TrimPrefix(file, root+"/"), servedTest); err != nil {
			return nil, err
		}
		store := filepath.Base(filepath.Dir(file))
		add("served-"+store, "go", "test", "-count=1", "-timeout=30m", "-run=^TestContractServed$", "./store/"+store,
			"-every-number")
	}
	if n == 0 || len(served) == 0 {
		return nil, fmt.Errorf("no mutants in %s, or no stores behind the service", root)
	}
	return parts, nil
}

// found returns what a file lists, in order.
func found(root, name string, line *regexp.Regexp) (list []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	for _, match := range line.FindAllSubmatch(text, -1) {
		list = append(list, string(match[1]))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s lists nothing that matches %s", name, line)
	}
	slices.Sort(list)
	return list, nil
}

// A state is the outcome of a part on a commit.
type state struct {
	result  string
	seconds int
}

const (
	passed = "passed"
	failed = "failed"
)

func (s state) String() string { return fmt.Sprintf("%s %d\n", s.result, s.seconds) }

// parse reads a note. What is no note is a part that was not run.
func parse(text string) (s state) {
	if n, err := fmt.Sscanf(text, "%s %d", &s.result, &s.seconds); n != 2 || err != nil || s.result != passed &&
		s.result != failed {
		return state{}
	}
	return s
}

// next returns the parts to make: the named ones, or all that have not passed, with the failed ones last.
func next(all []part, named []string, states map[string]state) (todo []part, err error) {
	for _, name := range named {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no part %q; there are: %s", name, strings.Join(names(all), " "))
		}
		todo = append(todo, all[i])
	}
	if len(named) > 0 {
		return todo, nil
	}
	for _, result := range []string{"", failed} {
		for _, p := range all {
			if states[p.name].result == result {
				todo = append(todo, p)
			}
		}
	}
	return todo, nil
}

func names(parts []part) (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// table says what became of each part, and how to go on.
func table(all []part, states map[string]state) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\tresult\tseconds")
	count := map[string]int{}
	for _, p := range all {
		s := states[p.name]
		count[s.result]++
		if s.result == "" {
			fmt.Fprintf(w, "%s\tnot yet run\t-\n", p.name)
		} else {
			fmt.Fprintf(w, "%s\t%s\t%d\n", p.name, s.result, s.seconds)
		}
	}
	w.Flush()
	fmt.Fprintf(&text, "%d passed, %d failed, %d not yet run", count[passed], count[failed], count[""])
	if count[passed] == len(all) {
		return text.String() + "\n"
	}
	return text.String() + "; make full goes on, make full PART=NAME makes one\n"
}
