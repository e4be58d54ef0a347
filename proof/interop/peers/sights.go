//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A sight is what was seen of one play.
type sight struct {
	flaw
	play
	seen    string
	wrong   bool
	err     error
	earlier []string // what was seen when it was played before, and was a surprise
}

// plays is how often a play of another library is played until it goes as this program says.
const plays = 3

// surprising reports whether a play went otherwise than this program says that it does.
func (s *sight) surprising() bool {
	return s.err != nil || s.fate != mayFail && s.wrong != (s.fate == fails)
}

// repeatable reports whether a surprise may be due to a machine that has too much to do. Another library can look better
// or worse than it is when it is slow, and a server can be late. But stile has to be right however slow the machine is:
// what goes wrong with stile is a finding, once is enough, and it is never played again.
func (s *sight) repeatable() bool {
	_, outside := errors.AsType[staging](s.err)
	return outside || !strings.Contains(s.who, "stile")
}

// playAll plays flaws one after the other.
func playAll(flaws []flaw) (list []sight) {
	for _, f := range flaws {
		for _, p := range f.plays {
			list = append(list, see(f, p))
		}
	}
	return list
}

// see plays one scenario, and again if it surprises and may.
func see(f flaw, p play) sight {
	s := sight{flaw: f, play: p}
	for {
		s.seen, s.wrong, s.err = p.play()
		if !s.surprising() || !s.repeatable() || len(s.earlier) == plays-1 {
			return s
		}
		s.earlier = append(s.earlier, s.told())
	}
}

// lockName is the name of a lock of a play, which is another one in each run.
var lockName = regexp.MustCompile(`interop-[0-9a-f]{8}`)

// told is what was seen, in words.
func (s *sight) told() string {
	seen := s.seen
	if s.err != nil {
		seen = s.err.Error()
	}
	return lockName.ReplaceAllString(seen, "NAME")
}

// row is what was seen, as a row of a table in Markdown.
func (s *sight) row() string {
	verdict := "right"
	if s.wrong {
		verdict = "**wrong**"
	}
	if s.surprising() {
		verdict += ", and that is a surprise"
	}
	seen := s.told()
	if len(s.earlier) > 0 {
		seen += fmt.Sprintf("; played %d times, since before that: %s", len(s.earlier)+1, strings.Join(s.earlier, "; "))
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %s |", s.number, s.flaw.what, s.who, seen, verdict)
}

// flawTable writes what was seen, in Markdown, and returns the rows of the plays that went otherwise than expected.
func flawTable(out io.Writer, list []sight) (surprises []string) {
	var rows folded
	for _, s := range list {
		row := s.row()
		if s.surprising() {
			surprises = append(surprises, row)
		}
		rows.add(family(s.number), row)
	}
	rows.write(out, "| bug | what is done | with | seen | |")
	return surprises
}
