package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/bench"
	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/reserve"
	"github.com/stilelock/stile/driver"
)

const benchLong = `Measures how long locks take in the store: to lock and unlock with nobody else,
with 64 goroutines on 64 names, on one name, and in eight clients; with readers;
until another client holds what was unlocked; and until a try is refused. With a
second URL, both stores are measured in turn, and compared.

It locks names of its own, below a prefix that nobody else uses, and unlocks all,
also when it is interrupted. It keeps the store as busy as 64 goroutines can: other
users of the store notice.

Exit status: 0; 69 if the store could not be reached, with what was measured before.`

// A benchmark is one stile bench.
type benchmark struct {
	window duration
	rounds int
	only   []string
	prefix string
	json   bool
	svg    outfile
}

const (
	windowLeast = 50 * time.Millisecond
	windowMost  = time.Minute
	roundsMost  = 100
)

func newBench(s *store) *cobra.Command {
	b := &benchmark{window: duration(time.Second), svg: outfile{flag: "svg"}}
	cmd := &cobra.Command{
		Use: "bench [URL [URL2]]", Short: "Measure how long locks take in a store, or in two", Long: benchLong,
		Example: "  stile bench redis://localhost\n  stile bench --only alone,handover redis://localhost postgres://localhost/app",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 2:
				return usage("stile bench takes two URLs at most, and got %d", len(args))
			case len(args) > 0 && s.given():
				return usage("stile bench takes URLs by --url or as arguments, and got both")
			case slices.Contains(args, ""):
				return usage("URL is empty: it is the URL of a store; leave it out for the store of %s, or the default one", urlVariable)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.check(cmd); err != nil {
				return err
			}
			stores := []*store{s}
			if len(args) > 0 {
				stores = nil
			}
			for _, url := range args {
				stores = append(stores, &store{url: url, flag: s.flag})
			}
			ctx, stop := untilSignal(cmd.Context(), listen(guard.Ending))
			defer stop()
			return b.run(ctx, cmd, stores)
		},
	}
	f := cmd.Flags()
	f.Var(&b.window, "window", "how long each scenario is measured in each round")
	f.IntVar(&b.rounds, "rounds", 3, "how often each scenario is measured")
	f.StringSliceVar(&b.only, "only", nil, "measure only these, with commas between: "+strings.Join(keys(), ", "))
	f.StringVar(&b.prefix, "prefix", "", "what all names begin with (default stile-bench- and a random word)")
	f.BoolVar(&b.json, "json", false, "print one JSON value, with histograms")
	f.StringVar(&b.svg.path, "svg", "", "also draw the figures into this file")
	return cmd
}

// keys are those of all scenarios.
func keys() (all []string) {
	for _, s := range bench.Scenarios {
		all = append(all, s.Key)
	}
	return all
}

// check tells what is wrong with the flags.
func (b *benchmark) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch w := time.Duration(b.window); {
	case w < windowLeast || w > windowMost:
		return usage("--window %v: it must be from %v to %v", w, windowLeast, windowMost)
	case b.rounds < 1 || b.rounds > roundsMost:
		return usage("--rounds %d: it must be from 1 to %d", b.rounds, roundsMost)
	case changed("only") && len(b.only) == 0:
		return usage("--only is empty: it takes %s", strings.Join(keys(), ", "))
	case changed("prefix") && b.prefix == "":
		return usage("--prefix is empty: it is what the names of the locks begin with")
	}
	for _, key := range b.only {
		if !slices.Contains(keys(), key) {
			return usage("--only: there is no scenario %s; there are: %s", shortened(key), strings.Join(keys(), ", "))
		}
	}
	if b.prefix == "" {
		b.prefix = "stile-bench-" + rand.Text()[:10]
	}
	if err := driver.CheckName(b.prefix + "/1/handover-100/63"); err != nil { // as long as any
		return usage("--prefix %s: %w", shortened(b.prefix), err)
	}
	return b.svg.check(changed("svg"))
}

func (b *benchmark) run(ctx context.Context, cmd *cobra.Command, stores []*store) error {
	r := &benchReport{benchmark: b}
	plan := &bench.Plan{Window: time.Duration(b.window), Rounds: b.rounds, Progress: r.progress}
	for _, s := range bench.Scenarios {
		if len(b.only) == 0 || slices.Contains(b.only, s.Key) {
			plan.Scenarios = append(plan.Scenarios, s)
		}
	}
	for _, s := range stores {
		s.silent = true
		a, _, err := s.address()
		if err != nil {
			return err
		}
		r.addresses = append(r.addresses, a.String())
		open := func(ctx context.Context) (*stile.Client, error) { return s.open(ctx, nil) }
		plan.Targets = append(plan.Targets, bench.Target{Prefix: b.prefix, Open: open})
	}
	r.begun = time.Now()
	var err error
	r.result, err = bench.Run(ctx, plan)
	stderr.Erase()
	r.failed = benchFailure(err)
	for _, left := range r.result.Left {
		warn("warning: %s; it goes with its lease", left)
	}
	if len(r.result.Rows) == 0 {
		return r.failed // before anything was measured
	}
	return errors.Join(r.failed, r.publish(cmd.OutOrStdout()))
}

// benchFailure gives an error its status: whatever goes wrong once the store was opened, other than what it refuses, is
// the store's.
func benchFailure(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, reserve.ErrInUse) {
		return usage("%w; choose another with --prefix", err)
	}
	if i, ok := errors.AsType[*interrupted](err); ok {
		return i
	}
	if s, ok := errors.AsType[*status](err); ok {
		return s
	}
	if code, _ := classify(err); code == exitUsage {
		return err
	}
	return withStatus(exitStore, err)
}

// progress shows what is measured.
func (r *benchReport) progress(s bench.Step) {
	what := s.Scenario.Key + " on " + r.addresses[s.Target]
	detail("round %d of %d: %s", s.Round, r.rounds, what)
	if speech == quiet {
		return
	}
	left := time.Duration(s.Of-s.Number+1) * time.Duration(r.window) * 5 / 4
	stderr.Draw(func(cells int) string {
		return page.Cut("stile: "+page.Printable(what)+", round "+ratioText(s.Round, r.rounds)+", about "+page.Short(left)+" left", cells)
	})
}
