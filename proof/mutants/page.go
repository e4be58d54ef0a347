package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// page has the matrix, between two marks.
const page = "docs/evidence/matrix.md"

const (
	begin = "<!-- matrix: go run ./proof/mutants -write NAME... -->\n"
	end   = "<!-- end of matrix -->"
)

// header begins the table.
const header = `| mistake | stands for | exploration | seeds | contract | its own test |
| --- | --- | --- | --- | --- | --- |
`

var rowOf = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|(.*)\\|$")

// renew returns the page with these rows in place of its own rows of the same mistakes. It keeps the other rows whose patch
// exists, in order, and counts again.
func renew(text string, rows map[string]string, patches []string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	table, after, okay := strings.Cut(rest, end)
	if !ok || !okay {
		return "", fmt.Errorf("%s has no %q with %q after it", page, strings.TrimSpace(begin), end)
	}
	all := map[string]string{}
	for _, row := range rowOf.FindAllStringSubmatch(table, -1) {
		if slices.Contains(patches, row[1]) {
			all[row[1]] = row[0]
		}
	}
	maps.Copy(all, rows)
	var b strings.Builder
	b.WriteString(before + begin + header)
	alone := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintln(&b, all[name])
		if ownOnly(all[name]) {
			alone++
		}
	}
	fmt.Fprintf(&b, "\nOf %d mistakes %d are found by something that was not written for them, and %d by their own test only.\n",
		len(all), len(all)-alone, alone)
	return b.String() + end + after, nil
}

// ownOnly reports whether a row says that only the mistake's own test has found it.
func ownOnly(row string) bool {
	cells := strings.Split(strings.Trim(row, "|"), "|")
	return strings.TrimSpace(strings.Join(cells[2:len(cells)-1], "")) == ""
}

// write puts rows into the page.
func write(rows map[string]string, files []string) error {
	if len(rows) == 0 {
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		names = append(names, nameOf(file))
	}
	renewed, err := renew(string(text), rows, names)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(renewed), 0o644)
}
