//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
)

// A fold is a part of a long table that a reader of the page can open: all rows together would fill thirty screens of a
// phone.
type fold struct {
	title string
	rows  []string // without the column that is in the title
}

// folded groups rows by their title, in the order in which the titles come.
type folded []fold

func (f *folded) add(title, row string) {
	for i := range *f {
		if (*f)[i].title == title {
			(*f)[i].rows = append((*f)[i].rows, row)
			return
		}
	}
	*f = append(*f, fold{title, []string{row}})
}

// write writes the parts in Markdown, each with the head of the table.
func (f folded) write(out io.Writer, head string) {
	rule := strings.Repeat("| --- ", strings.Count(head, "|")-1) + "|"
	for i, part := range f {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "<details>\n<summary>%s, %d rows</summary>\n\n%s\n%s\n", part.title, len(part.rows), head, rule)
		for _, row := range part.rows {
			fmt.Fprintln(out, row)
		}
		fmt.Fprintln(out, "\n</details>")
	}
}
