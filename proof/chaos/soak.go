//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/history"
)

// longest bounds one run: a soak is many runs, each of which can be repeated.
const longest = time.Hour

// check returns why a run cannot be made, or nil.
func (p *plan) check(bounded bool) error {
	switch {
	case p.during <= 0 || p.during > longest:
		return fmt.Errorf("-for %v: a run lasts for more than 0s and at most %v", p.during, longest)
	case p.workers < 2:
		return fmt.Errorf("-workers %d: two processes at least exclude each other", p.workers)
	case !bounded:
		return errors.New("-log: a soak needs a bound: say -for, such as -for 10m")
	}
	for _, kind := range p.only {
		if all := kinds(slices.Concat(faults, ofBalancer, administered)); !slices.Contains(all, kind) {
			return fmt.Errorf("-faults %q is none of %s", kind, strings.Join(all, ", "))
		}
	}
	return nil
}

// kinds returns the names of faults.
func kinds(list []fault) (names []string) {
	for _, f := range list {
		names = append(names, f.kind)
	}
	return names
}

// line returns the run's line for the log.
func (o *outcome) line() string {
	grants, made := 0, 0
	for _, n := range o.grants {
		grants += n
	}
	for _, n := range o.faults {
		made += n
	}
	result := "none"
	if len(o.inconclusive) > 0 {
		result = "inconclusive"
	}
	if len(o.wrong) > 0 {
		result = fmt.Sprint(len(o.wrong))
	}
	return fmt.Sprintf("%s faults=%d holds=%d checked=%d lax=%v excused=%d findings=%s\n",
		o.name(), made, grants, o.checked, o.lax.Round(time.Second), len(o.excused), result)
}

// name returns the run's name in the log.
func (p *plan) name() string {
	name := fmt.Sprintf("%s seed=%d for=%v pairs=%v workers=%d", p.store, p.seed, p.during, p.pairs, p.workers)
	if p.only != nil {
		name += fmt.Sprintf(" only=%q", strings.Join(p.only, ","))
	}
	return name
}

// flags returns the flags that repeat the run.
func (p *plan) flags() string {
	text := fmt.Sprintf("-store %s -seed %d -for %v -workers %d", p.store, p.seed, p.during, p.workers)
	if p.pairs {
		text += " -pairs"
	}
	if p.only != nil {
		text += fmt.Sprintf(" -faults '%s'", strings.Join(p.only, ","))
	}
	return text
}

// note appends a run to a log.
func (o *outcome) note(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, o.line())
	return errors.Join(err, f.Close())
}

// save writes the findings of a run and the reports of each worker into a new file in a folder, and returns the file's
// name.
func (o *outcome) save(folder string) (string, error) {
	var text strings.Builder
	o.print(&text)
	slices.SortFunc(o.holds, func(a, b *history.Hold) int { return int(a.Begin - b.Begin) })
	for _, h := range o.holds {
		fmt.Fprintf(&text, "%s: %v\n", h.Name, h)
	}
	f, err := os.CreateTemp(folder, fmt.Sprintf("chaos-%s-%d-*.txt", o.store, o.seed))
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text.String())
	return filepath.Clean(f.Name()), errors.Join(err, f.Close())
}

// fewer returns a smaller set of fault kinds with which a failed run still fails, by leaving out one kind after the other.
// Faults meet requests by chance, so a run that does not fail proves little: a kind is left out only if the run fails
// without it.
func fewer(kinds []string, most int, fails func(only []string) bool) []string {
	for i := 0; i < len(kinds) && len(kinds) > 1 && most > 0; most-- {
		rest := slices.Delete(slices.Clone(kinds), i, i+1)
		if fails(rest) {
			kinds = rest
		} else {
			i++
		}
	}
	return kinds
}

// hit returns the kinds of faults that the run had.
func (o *outcome) hit() []string { return slices.Sorted(maps.Keys(o.faults)) }
