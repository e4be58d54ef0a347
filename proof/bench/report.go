//go:build unix

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A facts has what readers need in order to judge the figures.
type facts struct {
	when     time.Time
	cpu      string
	cores    int
	system   string // kernel
	golang   string
	server   string
	versions []string // of the libraries
	load     [2]float64
	command  string
}

// report writes the page.
func (b *bench) report(w io.Writer, f *facts) error {
	var p page
	p.line("# Benchmarks: %s", b.arena.heading())
	p.line("")
	p.line("stile beside %s, on %s, measured in one run. This page is written by", b.arena.beside(), b.arena.setting("real ", b.arena.server))
	p.line("`%s` in the folder proof/bench, not by hand.", f.command)
	p.line("")
	p.line("Compare figures of one run only, and look at the ratios: what else the machine has to do, and whether its cores halt between")
	p.line("requests, can double a round trip. A row is the median of its rounds; rounds are interleaved (A B C, A B C).")
	p.line("")
	p.line("## Targets")
	p.line("")
	p.line("A ratio is the median over the rounds of stile's figure by the other one of the same round, with the least and the largest. The bare")
	p.line("limit is what a program reaches, in the same run, that makes the round trips with the same client and has no logic of locks. A target")
	p.line("that is missed is *within 15 %% of the bare limit* if stile is, and if no other library was faster in this run.")
	p.line("")
	p.row("target", "stile", "compared with", "ratio", "bound", "bare limit", "ratio to that", "")
	p.row("---", "---:", "---", "---:", "---:", "---", "---:", "---")
	for i := range b.arena.targets {
		t := &b.arena.targets[i]
		v := b.judge(t)
		if v == nil {
			continue
		}
		sign := "≥ "
		if t.most {
			sign = "≤ "
		}
		if t.strict {
			sign = "< "
		}
		rival, limit, toLimit := v.rival, "", ""
		if rival == "" {
			rival = "fixed"
		}
		if len(v.toLimit) > 0 {
			limit, toLimit = t.bare+": "+quantity(v.limit, t.unit), spread(v.toLimit)
		}
		p.row(t.text, quantity(v.ours, t.unit), rival+": "+quantity(v.theirs, t.unit), spread(v.ratios), sign+short(t.bound),
			limit, toLimit, v.word())
	}
	for _, m := range b.measures {
		if len(m.rows[0].samples) == 0 {
			continue
		}
		p.line("")
		p.line("## %s", m.title)
		p.line("")
		p.line("%s %s.", m.about, count(len(m.rows[0].samples), "round"))
		p.line("")
		heads, rule := []string{""}, []string{"---"}
		for _, c := range m.columns {
			heads, rule = append(heads, c.head), append(rule, "---:")
		}
		p.row(heads...)
		p.row(rule...)
		for _, r := range m.rows {
			cells := []string{r.name}
			for _, c := range m.columns {
				cells = append(cells, grouped(median(r.values(c.key)), c.digits))
			}
			p.row(cells...)
		}
	}
	p.line("")
	p.line("## How it was measured")
	p.line("")
	p.line("- %s, %d cores, %s, %s", f.cpu, f.cores, f.system, f.golang)
	if b.arena.serverless {
		p.line("- %s, %s", f.server, b.arena.conditions)
	} else {
		p.line("- %s, %s on loopback, %s, nothing else on it; server, client and benchmark share the cores",
			f.server, b.arena.setting("", "server"), b.arena.conditions)
	}
	p.line("- %s", strings.Join(f.versions, ", "))
	p.line("- %s; load average %.1f when it began and %.1f when it ended", f.when.UTC().Format("2 January 2006, 15:04 UTC"), f.load[0], f.load[1])
	p.line("- windows of %v after a quarter of that to warm up; the same ttl (%v) for all where nothing else is said", b.window, defaultTTL)
	p.line("")
	for _, c := range b.arena.contenders {
		p.line("- **%s**: %s", c.name, c.about)
	}
	p.line("")
	p.line("%s", b.arena.note)
	p.line("Every library has a new client for each window. Waits that are under way when a window ends count as long as they have lasted.")
	p.line("Jain's index is 1 if all goroutines had the lock as often, and 1/64 if one had it alone. Overlaps are acquisitions while another")
	p.line("goroutine had not released yet, which must not happen.")
	_, err := io.WriteString(w, p.String())
	return err
}

// A page is text in Markdown.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) row(cells ...string) { p.line("| %s |", strings.Join(cells, " | ")) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// quantity formats a number with its unit for easy reading.
func quantity(v float64, unit string) string {
	text := short(v)
	if unit == "" || strings.HasPrefix(unit, "/") {
		return text + unit
	}
	return text + " " + unit
}

// short formats a number with three significant digits, or all digits before the point.
func short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 100 || v == math.Trunc(v):
		return grouped(v, 0)
	case a >= 10:
		return grouped(v, 1)
	case a >= 1:
		return grouped(v, 2)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// grouped formats a number with commas between thousands.
func grouped(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, part, point := strings.Cut(text, ".")
	sign := ""
	if rest, ok := strings.CutPrefix(whole, "-"); ok {
		sign, whole = "-", rest
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + part
	}
	return sign + whole
}

// spread formats the median of some ratios, with the least and the largest.
func spread(ratios []float64) string {
	if len(ratios) == 1 {
		return short(ratios[0])
	}
	return fmt.Sprintf("%s (%s–%s)", short(median(ratios)), short(slices.Min(ratios)), short(slices.Max(ratios)))
}
