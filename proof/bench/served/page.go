//go:build linux

package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/proof/bench/internal/system"
)

// A page is what a run has to say.
type page struct {
	command  string
	begun    time.Time
	load     [2]float64 // the machine's, when the run began and when it ended
	versions []string
	targets  table
	tables   []*table
}

// A table is a part of the page.
type table struct {
	title, about string
	rows         [][]string // the first has the heads
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// table adds a part to the page.
func (p *page) table(title, about string, heads ...string) *table {
	t := &table{title, about, [][]string{heads}}
	p.tables = append(p.tables, t)
	return t
}

// The directions of targets.
const (
	atMost  = "≤ "
	atLeast = "≥ "
)

// target adds a figure and its aim.
func (p *page) target(text string, value float64, direction string, aim float64) {
	verdict := "met"
	if direction == atMost && !(value <= aim) || direction == atLeast && !(value >= aim) {
		verdict = "**missed**"
	}
	p.targets.row(text, short(value), direction+short(aim), verdict)
}

// String returns the page in Markdown.
func (p *page) String(r *run) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# The lock service, measured\n")
	line("A run wrote this page: `%s`. [What the figures mean](../serve/cost.md) has the conclusions.", p.command)
	line("Compare figures of one run only, and look at the ratios.\n")
	if r.short {
		line("**This was a short run, to try the program: its figures mean little.**\n")
	}
	line("- %s, %d cores, %s, %s, %s", system.Processor(), runtime.NumCPU(), system.Kernel(), runtime.Version(), p.begun.UTC().Format("2 January 2006"))
	line("- %s; all on loopback", strings.Join(p.versions, "; "))
	line("- load average %.1f when it began and %.1f when it ended; clients, services and stores share the cores", p.load[0], p.load[1])
	line("- the median of the rounds, which alternate: %d, of %v for each figure", r.rounds, r.window)
	p.targets.title, p.targets.about = "Targets", "The least or the most that the project aims at."
	p.targets.rows = append([][]string{{"target", "measured", "aim", ""}}, p.targets.rows...)
	for _, t := range append([]*table{&p.targets}, p.tables...) {
		line("\n## %s\n\n%s\n", t.title, t.about)
		for i, row := range t.rows {
			line("| %s |", strings.Join(row, " | "))
			if i == 0 {
				line("| ---%s |", strings.Repeat(" | ---:", len(row)-1))
			}
		}
	}
	return b.String()
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[len(values)/2] // rounds are odd, and of many values either middle one will do
}

// middle returns the median of a figure over the rounds.
func middle[T any](rounds []T, figure func(T) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, figure(r))
	}
	return median(all)
}

// grouped formats a number with digits after the point, and commas before it.
func grouped(v float64, digits int) string {
	text := fmt.Sprintf("%.*f", digits, v)
	whole, rest, fraction := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction {
		return whole + "." + rest
	}
	return whole
}

func micros(v float64) string        { return grouped(v, 1) + " µs" }
func millis(v float64) string        { return grouped(v, 2) + " ms" }
func seconds(d time.Duration) string { return grouped(d.Seconds(), 2) + " s" }
func times(v float64) string         { return grouped(v, 2) + "×" }
func share(of float64) string        { return grouped(100*of, 1) + " % of a core" }
func short(v float64) string         { return strings.TrimSuffix(strings.TrimRight(grouped(v, 2), "0"), ".") }
