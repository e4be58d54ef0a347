package draw

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// The pictures of what was measured are drawn from the tables of pages, whose figures a test of internal/repo holds to the
// evidence.

func init() {
	readme, scaling, peers := "../../README.md", "../../docs/explain/scaling.md", "../../docs/explain/peers.md"
	served := "../../docs/evidence/serve.md"
	book["benchmarks"] = &Bars{
		Title: "Hand-overs between processes, and a lock that nobody else wants",
		Panels: []Panel{
			{Heading: "hand-overs a second, each through the store; more is better",
				Bars: paired(readme, "hand-overs/s between processes", "turns off", 1, "/s")},
			{Heading: "a lock and unlock, median; less is better", Bars: paired(readme, "hand-overs/s between processes", "lock and unlock", 1, "")},
		},
	}
	book["fleet"] = &Bars{
		Title:  "What one server bears",
		Panels: []Panel{{Heading: "processes of the fleet that one server bears, computed; more is better", Bars: column(scaling, "breaks first", "processes that one server bears")}},
	}
	book["peers"] = &Bars{
		Title:  "Libraries under the same faults",
		Panels: []Panel{{Heading: "the longest wait for a free lock while there was no fault; less is better", Bars: column(peers, "runs in which two held", "the longest wait")}},
	}
	book["serve"] = &Bars{
		Title: "What the lock service costs",
		Panels: []Panel{
			{Heading: "processor time of client and service; less is better", Bars: column(served, "| work |", "both")},
			{Heading: "locks and unlocks a second of 64 clients; more is better", Bars: column(served, "| contender |", "64 clients")},
			{Heading: "hand-over of a lock in Redis, median; less is better", Bars: column(served, "| way |", "p50")},
		},
	}
}

var linkOf = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// table returns the cells of the table of a page whose head has a word, without its line of strokes.
func table(page, word string) (rows [][]string) {
	text, err := os.ReadFile(page)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			if rows != nil {
				return rows
			}
		case rows != nil || strings.Contains(line, word):
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.ReplaceAll(linkOf.ReplaceAllString(strings.TrimSpace(cell), "$1"), "`", ""))
			}
			if !strings.HasPrefix(cells[0], "---") {
				rows = append(rows, cells)
			}
		}
	}
	if rows == nil {
		panic(fmt.Sprintf("%s has no table with %q", page, word))
	}
	return rows
}

// at returns the place of a column by its head.
func at(rows [][]string, head string) int {
	for i, cell := range rows[0] {
		if cell == head {
			return i
		}
	}
	panic(fmt.Sprintf("no column %q in %q", head, rows[0]))
}

// bar takes a figure as a page has it; a time is counted in microseconds.
func bar(name, text string) Bar {
	number, unit, _ := strings.Cut(strings.ReplaceAll(text, ",", ""), " ")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	b := Bar{Name: name, Value: value * map[string]float64{"": 1, "µs": 1, "ms": 1e3, "s": 1e6}[unit], Text: text, Kind: Store}
	if strings.HasPrefix(name, "stile") {
		b.Kind = Held
	}
	return b
}

// column has a bar for each row.
func column(page, word, head string) (bars []Bar) {
	rows := table(page, word)
	i := at(rows, head)
	for _, row := range rows[1:] {
		bars = append(bars, bar(row[0], row[i]))
	}
	return bars
}

// paired has two bars for each row: stile's figure, and the other's some columns further.
func paired(page, word, head string, further int, unit string) (bars []Bar) {
	rows := table(page, word)
	i := at(rows, head)
	for _, row := range rows[1:] {
		for _, b := range []Bar{bar("stile on "+row[0], row[i]), bar("best other on "+row[0], row[i+further])} {
			b.Text += unit
			bars = append(bars, b)
		}
	}
	return bars
}
