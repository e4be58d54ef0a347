package trial

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
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/reserve"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
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
	window flags.Duration
	rounds int
	only   []string
	prefix string
	json   bool
	svg    answer.File
}

const (
	windowLeast = 50 * time.Millisecond
	windowMost  = time.Minute
	roundsMost  = 100
)

// Bench returns the command.
func Bench(s *store.Store) *cobra.Command {
	b := &benchmark{window: flags.Duration(time.Second), svg: answer.File{Flag: "svg"}}
	cmd := &cobra.Command{
		Use: "bench [URL [URL2]]", Short: "Measure how long locks take in a store, or in two", Long: benchLong,
		Example: "  stile bench redis://localhost\n  stile bench --only alone,handover redis://localhost postgres://localhost/app",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 2:
				return exit.Usage("stile bench takes two URLs at most, and got %d", len(args))
			case len(args) > 0 && s.Given():
				return exit.Usage("stile bench takes URLs by --url or as arguments, and got both")
			case slices.Contains(args, ""):
				return exit.Usage("URL is empty: it is the URL of a store; leave it out for the store of %s, or the default one",
					store.URLVariable)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.check(cmd); err != nil {
				return err
			}
			stores := []*store.Store{s}
			if len(args) > 0 {
				stores = nil
			}
			for _, url := range args {
				stores = append(stores, &store.Store{URL: url, Flag: s.Flag})
			}
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			return b.run(ctx, cmd, stores)
		},
	}
	f := cmd.Flags()
	f.Var(&b.window, "window", "how long each scenario is measured in each round")
	f.IntVar(&b.rounds, "rounds", 3, "how often each scenario is measured")
	f.StringSliceVar(&b.only, "only", nil, "measure only these, with commas between: "+strings.Join(Keys(), ", "))
	f.StringVar(&b.prefix, "prefix", "", "what all names begin with (default stile-bench- and a random word)")
	f.BoolVar(&b.json, "json", false, "print one JSON value, with histograms")
	f.StringVar(&b.svg.Path, "svg", "", "also draw the figures into this file")
	return cmd
}

// Keys returns the keys of all scenarios.
func Keys() (all []string) {
	for _, s := range bench.Scenarios {
		all = append(all, s.Key)
	}
	return all
}

// check returns an error if the flags are wrong.
func (b *benchmark) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch w := time.Duration(b.window); {
	case w < windowLeast || w > windowMost:
		return exit.Usage("--window %v: it must be from %v to %v", w, windowLeast, windowMost)
	case b.rounds < 1 || b.rounds > roundsMost:
		return exit.Usage("--rounds %d: it must be from 1 to %d", b.rounds, roundsMost)
	case changed("only") && len(b.only) == 0:
		return exit.Usage("--only is empty: it takes %s", strings.Join(Keys(), ", "))
	case changed("prefix") && b.prefix == "":
		return exit.Usage("--prefix is empty: it is what the names of the locks begin with")
	}
	for _, key := range b.only {
		if !slices.Contains(Keys(), key) {
			return exit.Usage("--only: there is no scenario %s; there are: %s", phrase.Shortened(key), strings.Join(Keys(), ", "))
		}
	}
	if b.prefix == "" {
		b.prefix = "stile-bench-" + rand.Text()[:10]
	}
	if err := driver.CheckName(b.prefix + "/1/handover-100/63"); err != nil { // the longest name
		return exit.Usage("--prefix %s: %w", phrase.Shortened(b.prefix), err)
	}
	return b.svg.Check(changed("svg"))
}

func (b *benchmark) run(ctx context.Context, cmd *cobra.Command, stores []*store.Store) error {
	r := &benchReport{benchmark: b}
	plan := &bench.Plan{Window: time.Duration(b.window), Rounds: b.rounds, Progress: r.progress}
	for _, s := range bench.Scenarios {
		if len(b.only) == 0 || slices.Contains(b.only, s.Key) {
			plan.Scenarios = append(plan.Scenarios, s)
		}
	}
	for _, s := range stores {
		s.Silent = true
		a, _, err := s.Address()
		if err != nil {
			return err
		}
		r.addresses = append(r.addresses, a.String())
		open := func(ctx context.Context) (*stile.Client, error) { return s.Open(ctx, nil) }
		plan.Targets = append(plan.Targets, bench.Target{Prefix: b.prefix, Open: open})
	}
	r.begun = time.Now()
	var err error
	r.result, err = bench.Run(ctx, plan)
	speech.Stderr.Erase()
	r.failed = benchFailure(err)
	for _, left := range r.result.Left {
		speech.Warn("warning: %s; it goes with its lease", left)
	}
	if len(r.result.Rows) == 0 {
		return r.failed // before anything was measured
	}
	return errors.Join(r.failed, r.publish(cmd.OutOrStdout()))
}

// benchFailure gives an error its status: once the store was opened, any failure except a refusal is the store's.
func benchFailure(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, reserve.ErrInUse) {
		return exit.Usage("%w; choose another with --prefix", err)
	}
	if i, ok := errors.AsType[*ending.Interrupted](err); ok {
		return i
	}
	if s, ok := errors.AsType[*exit.Status](err); ok {
		return s
	}
	if code, _ := exit.Classify(err); code == exit.BadUsage {
		return err
	}
	return exit.With(exit.Store, err)
}

// progress shows the present measurement.
func (r *benchReport) progress(s bench.Step) {
	what := s.Scenario.Key + " on " + r.addresses[s.Target]
	speech.Detail("round %d of %d: %s", s.Round, r.rounds, what)
	if speech.Current == speech.Quiet {
		return
	}
	left := time.Duration(s.Of-s.Number+1) * time.Duration(r.window) * 5 / 4
	speech.Stderr.Draw(func(cells int) string {
		round := ratioText(s.Round, r.rounds)
		return page.Cut("stile: "+phrase.Printable(what)+", round "+round+", about "+page.Short(left)+" left", cells)
	})
}
