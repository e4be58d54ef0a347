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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A figure is a line that a scenario prints: one measured value.
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

// slack is the time that a run may take in addition to its window, to connect and to clean up.
const slack = 30 * time.Second

// measure runs all scenarios on one store. Each side has its own server, since one may write data that the other cannot
// read.
func (b *bench) measure(ctx context.Context, s *store) error {
	if b.link > 0 && !s.served {
		fmt.Fprintf(b.log, "%s has no server, and so no link\n", s.key)
		return nil
	}
	over := func(addr string) string {
		if b.link == 0 {
			return addr
		}
		return servertest.NewLink(b.host, addr, b.link).Addr
	}
	var args [sides][]string
	var servers [sides][]int
	for side := range sides {
		others := descendants(os.Getpid())
		url := s.start(b.host, over)
		servers[side] = slices.DeleteFunc(descendants(os.Getpid()), func(pid int) bool { return slices.Contains(others, pid) })
		args[side] = []string{
			"-url", url, "-local=" + strconv.FormatBool(s.local), "-window", b.window.String(),
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
			if err := b.rounds(ctx, s, scenario, p, args, servers); err != nil {
				return err
			}
		}
	}
	return nil
}

// rounds measures a scenario at a placement on both sides, one after the other.
func (b *bench) rounds(ctx context.Context, s *store, scenario string, p placement, args [sides][]string, servers [sides][]int) (err error) {
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
			figures, err := b.once(ctx, side, scenario, p, args[side], servers[side])
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

// once runs a scenario on one side, at a placement. With servers it adds a figure: the processor time of the servers for
// each turn.
func (b *bench) once(ctx context.Context, side int, scenario string, p placement, args []string, servers []int) ([]figure, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*b.window+slack, fmt.Errorf("%s hangs", scenario))
	defer cancel()
	before := worked(servers)
	out, err := output(ctx, p.on(append([]string{b.programs[side], "-run", scenario}, args...)...)...)
	if err != nil {
		return nil, err
	}
	took := worked(servers) - before
	figures, err := read(strings.NewReader(out))
	i := slices.IndexFunc(figures, func(f figure) bool { return f.Name == turnsName })
	if err != nil || i < 0 {
		return figures, err
	}
	turns := figures[i].Value
	figures = slices.Delete(figures, i, i+1)
	if len(servers) > 0 {
		figures = append(figures, figure{Name: scenario + ", server's processor µs a turn", Value: float64(took.Microseconds()) / turns})
	}
	return figures, nil
}

// turnsName is a figure without a comparison: the number of turns of a scenario.
const turnsName = "turns"

// read reads the output of a scenario.
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
