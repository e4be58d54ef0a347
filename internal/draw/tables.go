package draw

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A figure is a column of the tables of benchmarks that is drawn.
type figure struct {
	head   string
	words  string
	better string   // more or less, or neither
	unless []string // it is beside one of these columns, which says more or belongs to a table with nothing to compare
}

var figures = []figure{
	{head: "ops/s", words: "lock and unlock, times per second", better: "more"},
	{head: "hand-overs/s", words: "hand-overs per second", better: "more", unless: []string{"requests/hand-over", "ms until all wait"}},
	{head: "between processes/s", words: "of them between processes, per second"},
	{head: "p50 µs", words: "time, median, µs", better: "less", unless: []string{"ops/s"}},
	{head: "p99 µs", words: "time, 99th percentile, µs", better: "less"},
	{head: "p99.9 ms", words: "wait, 99.9th percentile, ms", better: "less"},
	{head: "requests/hand-over", words: "requests for each hand-over", better: "less"},
	{head: "commands/s", words: "commands per second, as the server counts them", better: "less", unless: []string{"heap bytes/lease", "unlock p99 ms"}},
	{head: "requests/s", words: "requests per second, as the clients send them", better: "less", unless: []string{"heap bytes/lease", "unlock p99 ms"}},
	{head: "heap bytes/lease", words: "bytes of heap for each lease", better: "less"},
	{head: "stack bytes/lease", words: "bytes of stacks for each lease", better: "less"},
	{head: "heap bytes/client", words: "bytes of heap for each client", better: "less"},
	{head: "stack bytes/client", words: "bytes of stacks for each client", better: "less"},
	{head: "heap bytes/waiter", words: "bytes of heap for each waiter", better: "less"},
	{head: "stack bytes/waiter", words: "bytes of stacks for each waiter", better: "less"},
	{head: "requests/pair", words: "requests for each lock and unlock", better: "less"},
	{head: "allocations/pair", words: "allocations for each lock and unlock", better: "less"},
	{head: "µs in scripts, enter and leave", words: "time in scripts to enter and leave, µs", better: "less"},
	{head: "ms in scripts, all enter", words: "time in scripts until all have entered, ms", better: "less"},
	{head: "ms until all wait", words: "time until all wait, ms", better: "less"},
	{head: "% of a core while they wait", words: "share of the server's core while they wait, %", better: "less"},
	{head: "unlock p99 ms", words: "time of an unlock, 99th percentile, ms", better: "less"},
	{head: "s to release 60,000", words: "time to release 60,000, s", better: "less"},
	{head: "p50 ms", words: "time, median, ms", better: "less"},
}

// chartsAt is where the charts of a page of benchmarks are, from the page.
const chartsAt = "charts/"

var (
	chartLine = regexp.MustCompile(`(?m)^!\[[^\]]*\]\(` + regexp.QuoteMeta(chartsAt) + `([^)/]*)\)\n\n`)
	pageTitle = regexp.MustCompile(`(?m)^# Benchmarks: (.*)$`)
	tableHead = regexp.MustCompile(`(?m)(?:^## (.*)$)|(^\|  \|.*\|\n\| ---.*\|\n(?:\|.*\|\n)*)`)
)

// Charts draws the tables of a page of benchmarks. It returns the page with a line before each table that shows the table's chart,
// in place of such lines that it had, and the charts by the names of their files.
func Charts(name, page string) (text string, charts map[string][]byte, err error) {
	page = chartLine.ReplaceAllString(page, "")
	title := pageTitle.FindStringSubmatch(page)
	if title == nil {
		return "", nil, fmt.Errorf("%s has no heading that begins with # Benchmarks", name)
	}
	charts = map[string][]byte{}
	var b strings.Builder
	heading, from := "", 0
	for _, at := range tableHead.FindAllStringSubmatchIndex(page, -1) {
		if at[2] >= 0 {
			heading = page[at[2]:at[3]]
			continue
		}
		bars := barsOf(page[at[4]:at[5]])
		if len(bars.Panels) == 0 {
			continue
		}
		bars.Title = heading + " (" + title[1] + ")"
		file := name + "-" + slug(heading) + ".svg"
		if charts[file] != nil {
			return "", nil, fmt.Errorf("%s has two tables below %q", name, heading)
		}
		if charts[file], err = bars.SVG(); err != nil {
			return "", nil, fmt.Errorf("%s, %s: %w", name, heading, err)
		}
		var shown []string
		for _, p := range bars.Panels {
			shown = append(shown, p.Heading)
		}
		fmt.Fprintf(&b, "%s![The table below as bars: %s.](%s%s)\n\n", page[from:at[0]], strings.Join(shown, "; "), chartsAt, file)
		from = at[0]
	}
	return b.String() + page[from:], charts, nil
}

// WriteCharts writes a page of benchmarks to a file, and its charts into a folder beside the file, in place of those that the page of
// before showed.
func WriteCharts(file, page string) error {
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	text, charts, err := Charts(name, page)
	if err != nil {
		return err
	}
	dir := filepath.Join(filepath.Dir(file), chartsAt)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, shown := range chartLine.FindAllSubmatch(before, -1) {
		old := filepath.Base(string(shown[1]))
		if charts[old] != nil {
			continue
		}
		if err := os.Remove(filepath.Join(dir, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for chart, svg := range charts {
		if err := os.WriteFile(filepath.Join(dir, chart), svg, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// barsOf returns the panels of a table in Markdown: one for each of its columns that is drawn.
func barsOf(table string) *Bars {
	var rows [][]string
	for l := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	heads, rows := rows[0], rows[2:]
	column := func(head string) int {
		for i, h := range heads {
			if h == head {
				return i
			}
		}
		return -1
	}
	bars := &Bars{}
	for _, f := range figures {
		i := column(f.head)
		if i < 0 || slices.ContainsFunc(f.unless, func(head string) bool { return column(head) >= 0 }) {
			continue
		}
		p := Panel{Heading: f.words}
		if f.better != "" {
			p.Heading += " (" + f.better + " is better)"
		}
		for _, row := range rows {
			if i >= len(row) {
				continue
			}
			bar := Bar{Name: row[0], Value: valueOf(row[i]), Text: row[i], Kind: Waiting}
			if strings.HasPrefix(bar.Name, "stile") {
				bar.Kind = Held
			}
			if f.better == "less" && valueOf(row[1]) == 0 { // nothing was measured, which is not the best there is
				bar.Value, bar.Text = math.NaN(), "none in the window"
			}
			p.Bars = append(p.Bars, bar)
		}
		bars.Panels = append(bars.Panels, p)
	}
	return bars
}

// valueOf reads a figure with commas between thousands. What is none is no number.
func valueOf(text string) float64 {
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// slug is a heading as a part of a file's name.
func slug(heading string) string {
	heading = strings.ReplaceAll(heading, ",", "")
	return strings.Join(strings.FieldsFunc(strings.ToLower(heading), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), "-")
}
