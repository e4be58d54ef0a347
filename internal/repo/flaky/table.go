//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stilelock/stile/internal/repo/events"
)

// A one is one run of the tests of a package.
type one struct {
	tests    map[string]*test
	said     string // the first line that no test said, or of a process that breaks
	broken   bool   // the process broke: what follows is of no test
	detector bool   // the race detector broke it, not a test
}

// A test is one that has begun.
type test struct {
	result string // pass, fail, skip; empty while it runs
	said   string // its first line
}

func newOne() *one { return &one{tests: map[string]*test{}} }

// take takes note of an event.
func (o *one) take(e *events.Event) {
	o.detector = o.detector || !o.broken && events.IsDetectors(e.Output)
	if !o.broken && (events.Breaks(e.Output) || o.detector) {
		o.broken, o.said = true, strings.TrimSpace(e.Output)
	}
	said := &o.said
	if e.Test != "" {
		t := o.tests[e.Test]
		if t == nil {
			t = new(test)
			o.tests[e.Test] = t
		}
		if e.Ends() {
			t.result = e.Action
		}
		if !o.broken {
			said = &t.said
		}
	}
	if text := strings.TrimSpace(e.Output); *said == "" && text != "" && !events.Noise(e.Output) &&
		!strings.HasPrefix(text, "--- ") {
		*said = text
	}
}

// failed returns the tests that failed, with the first line of each. Of a test with subtests that failed, they are named.
func (o *one) failed(passed bool) map[string]string {
	failed := map[string]string{}
	for name, t := range o.tests {
		if t.result == "pass" || o.hasFailed(name) {
			continue
		}
		switch t.result {
		case "skip":
			failed[name] = strings.TrimSpace("skipped itself: " + t.said)
		case "":
			failed[name] = strings.TrimSpace("did not end: " + cmp.Or(o.said, t.said))
		default:
			failed[name] = cmp.Or(t.said, o.said)
		}
	}
	if len(failed) == 0 && !passed {
		failed[outside] = o.said
	}
	return failed
}

// hasFailed reports whether a subtest of a test has not passed.
func (o *one) hasFailed(name string) bool {
	for other, t := range o.tests {
		if strings.HasPrefix(other, name+"/") && t.result != "pass" {
			return true
		}
	}
	return false
}

// A table counts what failed in some runs.
type table struct {
	path     string
	runs     int
	took     time.Duration
	beside   int // processes
	detector int // runs in which the race detector broke
	rows     map[string]*row
}

// A row is a test that ran.
type row struct {
	name           string
	runs, failures int
	said           string // the first line of the first failure
}

const (
	outside    = "outside the tests"
	someFailed = "failures/runs"
)

// add adds a run, of a process that ended well or not. What did not end because the race detector broke is no failure.
func (t *table) add(o *one, passed bool) {
	t.runs++
	failed := o.failed(passed)
	if o.detector {
		t.detector++
		for name := range failed {
			if name == outside || o.tests[name].result == "" || strings.HasPrefix(failed[name], "ThreadSanitizer: ") {
				delete(failed, name)
			}
		}
	}
	for name := range o.tests {
		t.row(name).runs++
	}
	t.row(outside).runs++
	for name, said := range failed {
		r := t.row(name)
		r.failures++
		if r.failures == 1 {
			r.said = said
		}
	}
}

func (t *table) row(name string) *row {
	if t.rows[name] == nil {
		t.rows[name] = &row{name: name}
	}
	return t.rows[name]
}

// failures are the rows of what failed, most often first.
func (t *table) failures() (rows []*row) {
	for _, r := range t.rows {
		if r.failures > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(b.failures-a.failures, strings.Compare(a.name, b.name))
	})
	return rows
}

func (t *table) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d runs in %.0f s, beside %d busy processes, under the race detector\n", t.path, t.runs,
		t.took.Seconds(), t.beside)
	if t.detector > 0 {
		fmt.Fprintf(&text, "in %d of them the race detector itself broke, see go.dev/issue/78156\n", t.detector)
	}
	rows := t.failures()
	if len(rows) == 0 {
		return text.String() + "none failed\n"
	}
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, someFailed+"\ttest\tsaid first")
	for _, r := range rows {
		fmt.Fprintf(w, "%d/%d\t%s\t%s\n", r.failures, r.runs, r.name, r.said)
	}
	w.Flush()
	return text.String()
}
