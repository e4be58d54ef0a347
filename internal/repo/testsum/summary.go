package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stilelock/stile/internal/repo/events"
)

// A summary counts tests.
type summary struct{ passed, failed int }

func (s summary) String() string { return fmt.Sprintf("%d passed, %d failed", s.passed, s.failed) }

// A pkg is a package whose tests run.
type pkg struct {
	tests  map[string]*one
	output bytes.Buffer // what no test said
	broken bool         // the process broke: what follows is of no test, although go test names the one that spoke last
	tool   bool         // the race detector broke it, not a test
}

// A one is a test that has begun.
type one struct {
	result string // pass, fail, skip; empty while it runs
	output bytes.Buffer
}

// A report has the output of go test -json so far.
type report struct {
	w      io.Writer
	last   bool // no package is tested again
	sum    summary
	again  []string // the packages in whose tests the race detector broke, uncounted
	pkgs   map[string]*pkg
	builds map[string]*bytes.Buffer // what the compiler said
}

// read reads the events of go test -json and writes what a person needs to know of them. It returns the packages in whose
// tests the race detector broke, uncounted; in the last try they are counted like others.
func read(r io.Reader, last bool, w io.Writer) (summary, []string, error) {
	rep := &report{w: w, last: last, pkgs: map[string]*pkg{}, builds: map[string]*bytes.Buffer{}}
	err := events.Read(r, rep.take, func(line []byte) { fmt.Fprintf(w, "%s", line) })
	if err != nil {
		return rep.sum, rep.again, err
	}
	// go test itself was killed.
	for _, name := range slices.Sorted(maps.Keys(rep.pkgs)) {
		rep.count(rep.pkgs[name], &events.Event{Action: "fail", Package: name})
	}
	return rep.sum, rep.again, nil
}

// take takes note of an event.
func (rep *report) take(e *events.Event) {
	if e.Action == "build-output" {
		if rep.builds[e.ImportPath] == nil {
			rep.builds[e.ImportPath] = new(bytes.Buffer)
		}
		rep.builds[e.ImportPath].WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := rep.pkgs[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*one{}}
		rep.pkgs[e.Package] = p
	}
	if e.Test != "" || !e.Ends() {
		p.add(e)
		return
	}
	delete(rep.pkgs, e.Package)
	if b := rep.builds[e.FailedBuild]; b != nil {
		p.output.Write(b.Bytes())
	}
	if p.tool && !p.failed() && !rep.last {
		rep.again = append(rep.again, e.Package)
		fmt.Fprintf(rep.w, "again %-50s %6.1f s  the race detector broke, see go.dev/issue/78156\n", e.Package, e.Elapsed)
		return
	}
	rep.count(p, e)
}

// count counts the tests of a package that has ended.
func (rep *report) count(p *pkg, e *events.Event) {
	got := p.summarize(e, rep.w)
	rep.sum.passed += got.passed
	rep.sum.failed += got.failed
}

// add takes note of an event of a package that still runs.
func (p *pkg) add(e *events.Event) {
	output := &p.output
	p.tool = p.tool || !p.broken && events.IsDetectors(e.Output)
	if e.Test != "" {
		t := p.tests[e.Test]
		if t == nil {
			t = new(one)
			p.tests[e.Test] = t
		}
		p.broken = p.broken || p.tool || events.Breaks(e.Output)
		if !p.broken {
			output = &t.output
		}
		if e.Ends() {
			t.result = e.Action
		}
	}
	if e.Action == "output" && !events.Noise(e.Output) {
		output.WriteString(e.Output)
	}
}

// failed reports whether a test has failed or skipped itself.
func (p *pkg) failed() bool {
	for _, t := range p.tests {
		if t.result == "fail" || t.result == "skip" {
			return true
		}
	}
	return false
}

// summarize counts the tests of a package and writes its line, below what the failed ones said.
func (p *pkg) summarize(e *events.Event, w io.Writer) (sum summary) {
	said := new(bytes.Buffer)
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		t := p.tests[name]
		parent, failed := false, false
		for other, sub := range p.tests {
			if strings.HasPrefix(other, name+"/") {
				parent, failed = true, failed || sub.result != "pass"
			}
		}
		switch t.result {
		case "pass":
			if !parent {
				sum.passed++
			}
			continue
		case "":
			fmt.Fprintf(said, "--- FAIL: %s did not end\n", name)
		case "skip":
			fmt.Fprintf(said, "--- FAIL: %s skipped itself\n", name)
		}
		if !failed {
			sum.failed++
		}
		said.Write(t.output.Bytes())
	}
	if e.Action == "fail" {
		if sum.failed == 0 {
			sum.failed = 1
			fmt.Fprintf(said, "--- FAIL: %s failed outside its tests\n", e.Package)
		}
		said.Write(p.output.Bytes())
	}
	fmt.Fprint(w, said)
	switch {
	case sum.failed > 0:
		fmt.Fprintf(w, "FAIL  %-50s %6.1f s  %s\n", e.Package, e.Elapsed, sum)
	case sum.passed == 0:
		fmt.Fprintf(w, "none  %s\n", e.Package)
	default:
		fmt.Fprintf(w, "ok    %-50s %6.1f s  %d\n", e.Package, e.Elapsed, sum.passed)
	}
	return sum
}
