//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// A series is many short runs of a correct tree: one seed after the other, with the stores in turn. It shows how often the
// checks give a false alarm. A run that is in the log already is not repeated, so an interrupted series can be resumed.
type series struct {
	plan   // of each run; the seed is the first run's
	stores []string
	runs   int
	alike  bool   // all runs have the same seed, and are made even if the log has them
	log    string // empty means no log
}

// at returns the plan of one of the runs.
func (s *series) at(i int) *plan {
	p := s.plan
	p.store = s.stores[i%len(s.stores)]
	if !s.alike {
		p.seed += uint64(i)
	}
	return &p
}

// logged returns the lines of the log by the names of their runs. If a name has several lines, the last one counts.
func logged(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, " faults="); ok {
			lines[name] = line
		}
	}
	return lines, nil
}

// A count counts the results of a series.
type count struct{ clean, wrong, inconclusive, before int }

func (c *count) add(line string) {
	switch {
	case strings.HasSuffix(line, " findings=none\n"):
		c.clean++
	case strings.HasSuffix(line, " findings=inconclusive\n"):
		c.inconclusive++
	default:
		c.wrong++
	}
}

func (c *count) String() string {
	return fmt.Sprintf("%d runs, %d of them from the log: %d without a finding, %d with findings, %d inconclusive",
		c.clean+c.wrong+c.inconclusive, c.before, c.clean, c.wrong, c.inconclusive)
}

// play makes the runs that are not in the log yet.
func (s *series) play(out io.Writer, once func(*plan) *outcome, failed func(*outcome)) (*count, error) {
	c := &count{}
	old, err := logged(s.log)
	if err != nil {
		return c, err
	}
	for i := range s.runs {
		p := s.at(i)
		if line, ok := old[p.name()]; ok && !s.alike {
			c.add(line)
			c.before++
			continue
		}
		o := once(p)
		c.add(o.line())
		o.print(out)
		if s.log != "" {
			if err := o.note(s.log); err != nil {
				return c, err
			}
		}
		if len(o.wrong) > 0 {
			failed(o)
		}
	}
	return c, nil
}

// check returns why a series cannot be made, or nil.
func (s *series) check(bounded bool) error {
	for i, name := range s.stores {
		if stores[name] == nil {
			return fmt.Errorf("-store %q is none of %s", name, storeList())
		}
		if slices.Contains(s.stores[:i], name) {
			return fmt.Errorf("-store names %s twice", name)
		}
	}
	if s.runs < 1 || s.runs > 1000 {
		return fmt.Errorf("-runs %d is not from 1 to 1000", s.runs)
	}
	return s.plan.check(bounded)
}
