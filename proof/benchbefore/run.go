//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// A figure is a line that a scenario prints: what it came to, once.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Higher bool    `json:"higher"` // is better; otherwise lower is
}

// A result is one figure of one scenario on one store, in all rounds.
type result struct {
	store, name string
	higher      bool
	values      [sides][]float64
}

// slack is what a run may take beside its window, to connect and to clean up.
const slack = 30 * time.Second

// measure runs all scenarios on one store. Each side has a server of its own: one may write what the other cannot read.
func (b *bench) measure(ctx context.Context, s *store) error {
	var args [sides][]string
	for side := range sides {
		args[side] = []string{
			"-url", s.start(b.host), "-local=" + strconv.FormatBool(s.local), "-window", b.window.String(),
			"-ttl", s.ttl.String(),
		}
	}
	list, err := output(ctx, append([]string{b.programs[after], "-list"}, args[after]...)...)
	if err != nil {
		return err
	}
	for scenario := range strings.FieldsSeq(list) {
		if !b.only.MatchString(scenario) {
			continue
		}
		for _, p := range b.placements(ctx, s, scenario) {
			if err := b.rounds(ctx, s, scenario, p, args); err != nil {
				return err
			}
		}
	}
	return nil
}

// rounds measures a scenario at a placement on both sides, one after the other.
func (b *bench) rounds(ctx context.Context, s *store, scenario string, p placement, args [sides][]string) (err error) {
	if p != anywhere {
		all, err := coresOf(ctx, os.Getpid())
		if err != nil {
			return err
		}
		if err := place(ctx, p.servers); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, place(ctx, strings.Join(all, ","))) }()
	}
	fmt.Fprintf(b.log, "%s %s%s", s.key, scenario, p.label)
	found := map[string]*result{}
	for round := range b.times {
		for i := range sides {
			side := (i + round) % sides // before, after; after, before
			figures, err := b.once(ctx, side, scenario, p, args[side])
			if err != nil {
				return fmt.Errorf("%s: %w", [sides]string{"the earlier revision", "the working tree"}[side], err)
			}
			for _, f := range figures {
				r := found[f.Name]
				if r == nil {
					r = &result{store: s.key, name: f.Name + p.label, higher: f.Higher}
					found[f.Name], b.results = r, append(b.results, r)
				}
				r.values[side] = append(r.values[side], f.Value)
			}
		}
		fmt.Fprint(b.log, ".")
	}
	fmt.Fprintln(b.log)
	return nil
}

// once runs a scenario on one side, at a placement.
func (b *bench) once(ctx context.Context, side int, scenario string, p placement, args []string) ([]figure, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*b.window+slack, fmt.Errorf("%s hangs", scenario))
	defer cancel()
	out, err := output(ctx, p.on(append([]string{b.programs[side], "-run", scenario}, args...)...)...)
	if err != nil {
		return nil, err
	}
	return read(strings.NewReader(out))
}

// read reads what a scenario prints.
func read(from io.Reader) (figures []figure, err error) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var f figure
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil || f.Name == "" {
			return nil, fmt.Errorf("a scenario printed %q, which is no figure", lines.Text())
		}
		figures = append(figures, f)
	}
	return figures, nil
}
