package page

import (
	"strings"

	"github.com/stilelock/stile/internal/phrase"
)

// A Style is the emphasis of a line.
type Style int

// The styles.
const (
	Plain Style = iota
	Bold
	Dim
	Good
	Warning
	Bad
)

// codes are the colours and weights of the styles, as terminal sequences.
var codes = [...]string{Plain: "", Bold: "\x1b[1m", Dim: "\x1b[2m", Good: "\x1b[32m", Warning: "\x1b[33m", Bad: "\x1b[31m"}

// A Line is one line of a page.
type Line struct {
	Text  string
	Style Style
}

// Paint returns the lines for a terminal, with colours or without.
func Paint(lines []Line, colours bool) []string {
	texts := make([]string, len(lines))
	for i, l := range lines {
		if texts[i] = l.Text; colours && codes[l.Style] != "" && l.Text != "" {
			texts[i] = codes[l.Style] + l.Text + "\x1b[0m"
		}
	}
	return texts
}

// A column is a column of a table that must fit a terminal.
type column struct {
	head  string
	least int  // the fewest cells that it may be cut to; 0 means that it must not be cut
	drops int  // if there is no room, the column with 1 is left out first, then 2; 0 means that it stays
	names bool // its texts are cut in the middle
}

// gap separates two columns.
const gap = "  "

// grid returns a table of at most a number of cells, with its head first. If there is no room, columns are left out, then
// cut, the last one first.
func grid(columns []column, rows [][]string, cells int) []string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Width(c.head)
		for _, row := range rows {
			if row[i] = phrase.Printable(row[i]); row[i] == "" {
				row[i] = "-"
			}
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	kept := fitting(columns, widths, cells)
	shrink(columns, widths, kept, cells)
	line := func(cell func(i int) string) string {
		var parts []string
		for _, i := range kept {
			text := cell(i)
			if columns[i].names {
				text = middle(text, widths[i])
			}
			parts = append(parts, pad(text, widths[i]))
		}
		return Cut(strings.TrimRight(strings.Join(parts, gap), " "), cells)
	}
	lines := []string{line(func(i int) string { return columns[i].head })}
	for _, row := range rows {
		lines = append(lines, line(func(i int) string { return row[i] }))
	}
	return lines
}

// fitting returns the columns that have room if each is as narrow as it may be.
func fitting(columns []column, widths []int, cells int) []int {
	for without := 0; ; without++ {
		var kept []int
		need, more := -len(gap), false
		for i, c := range columns {
			if c.drops != 0 && c.drops <= without {
				continue
			}
			more = more || c.drops > without
			kept = append(kept, i)
			need += len(gap) + narrowest(c, widths[i])
		}
		if need <= cells || !more {
			return kept
		}
	}
}

func narrowest(c column, width int) int {
	if c.least == 0 {
		return width
	}
	return min(width, max(c.least, Width(c.head)))
}

// shrink cuts columns until all kept columns fit.
func shrink(columns []column, widths, kept []int, cells int) {
	over := -len(gap) - cells
	for _, i := range kept {
		over += len(gap) + widths[i]
	}
	for n := len(kept) - 1; n >= 0 && over > 0; n-- {
		i := kept[n]
		cut := min(over, widths[i]-narrowest(columns[i], widths[i]))
		widths[i] -= cut
		over -= cut
	}
}
