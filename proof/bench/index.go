//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// indexFile is beside the pages, and lists how the targets of each were met.
const indexFile = "README.md"

// A standing has the targets of one page and their verdicts.
type standing struct {
	file, title, date string
	heads             []string
	targets           [][]string // as on the page; the last cell is the verdict
}

var (
	standingTitle = regexp.MustCompile(`(?m)^# Benchmarks: (.*)$`)
	standingDate  = regexp.MustCompile(`(?m)^- (\d+ \w+ \d{4}), \d\d:\d\d UTC; `)
)

// standingOf reads a page.
func standingOf(file, page string) (*standing, error) {
	title, date := standingTitle.FindStringSubmatch(page), standingDate.FindStringSubmatch(page)
	_, table, ok := strings.Cut(page, "\n| target | ")
	if title == nil || date == nil || !ok {
		return nil, fmt.Errorf("%s is no page of benchmarks with a title, targets and a date", file)
	}
	s := &standing{file: file, title: title[1], date: date[1]}
	for line := range strings.Lines("| target | " + table) {
		cells, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok {
			break
		}
		row := strings.Split(strings.TrimSuffix(cells, " |"), " | ")
		switch {
		case s.heads == nil:
			s.heads = row
		case strings.HasPrefix(row[0], "---"):
		case len(row) != len(s.heads):
			return nil, fmt.Errorf("%s: %d cells below %d heads: %s", file, len(row), len(s.heads), line)
		default:
			s.targets = append(s.targets, row)
		}
	}
	return s, nil
}

// verdict returns the verdict on a target.
func verdictOf(target []string) string { return strings.TrimSpace(target[len(target)-1]) }

// cell returns a target's text in a column, or "" if the page has no such column.
func (s *standing) cell(target []string, head string) string {
	if i := slices.Index(s.heads, head); i >= 0 {
		return strings.TrimSpace(target[i])
	}
	return ""
}

// indexOf makes the index of the pages in a folder.
func indexOf(dir string) (string, error) {
	var list, open page
	met, near, missed := 0, 0, 0
	for _, a := range allArenas() {
		file := filepath.Base(a.page)
		text, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		s, err := standingOf(file, string(text))
		if err != nil {
			return "", err
		}
		counts := map[string]int{}
		var rest [][]string
		for _, t := range s.targets {
			word, _, _ := strings.Cut(verdictOf(t), ":")
			counts[word]++
			if word != isMet {
				rest = append(rest, t)
			}
		}
		met, near, missed = met+counts[isMet], near+counts[isNear], missed+counts[isMissed]
		if counts[isMet]+counts[isNear]+counts[isMissed] != len(s.targets) {
			return "", fmt.Errorf("%s: a target is neither %q nor %q nor %q", file, isMet, isNear, isMissed)
		}
		list.row(fmt.Sprintf("[%s](%s)", s.title, s.file), fmt.Sprint(len(s.targets)), fmt.Sprint(counts[isMet]),
			fmt.Sprint(counts[isNear]), fmt.Sprint(counts[isMissed]), s.date)
		if len(rest) == 0 {
			continue
		}
		open.line("")
		open.line("### %s", s.title)
		open.line("")
		open.row("target", "stile", "compared with", "ratio", "bound", "bare limit", "ratio to that", "", "why")
		open.row("---", "---:", "---", "---:", "---:", "---", "---:", "---", "---")
		for _, t := range rest {
			limit := s.cell(t, "bare limit")
			if limit == "" {
				limit = "none measured"
			}
			open.row(t[0], s.cell(t, "stile"), s.cell(t, "compared with"), s.cell(t, "ratio"), s.cell(t, "bound"), limit,
				s.cell(t, "ratio to that"), verdictOf(t), reasons[a.key][t[0]])
		}
	}
	var p page
	p.line("# Benchmarks")
	p.line("")
	p.line("Each page is one run on one machine, beside other libraries. The table shows how many targets each run met. The program that writes")
	p.line("the other pages makes this page of them, and so does `go test ./proof/bench -run TestIndex -update`.")
	p.line("")
	p.row("page", "targets", "met", "within 15 % of the bare limit", "missed", "measured")
	p.row("---", "---:", "---:", "---:", "---:", "---")
	p.WriteString(list.String())
	p.row("all", fmt.Sprint(met+near+missed), fmt.Sprint(met), fmt.Sprint(near), fmt.Sprint(missed), "")
	p.line("")
	p.line("The *bare limit* is the figure that a bare program reaches in the same run. The bare program makes the round trips with the same client")
	p.line("and has no logic of locks: `bench` has it, under the name in the row. A target that is not met counts as within the limit if stile is")
	p.line("within 15 %% of the bare limit, and if no other library was faster in that run.")
	p.line("")
	p.line("## What is not met")
	p.WriteString(open.String())
	return p.String(), nil
}

// reindex writes the index beside a page again, if there is one.
func reindex(pageFile string) error {
	dir := filepath.Dir(pageFile)
	file := filepath.Join(dir, indexFile)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !strings.HasPrefix(string(old), "# Benchmarks\n") { // another file, or none
		return nil
	}
	text, err := indexOf(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
