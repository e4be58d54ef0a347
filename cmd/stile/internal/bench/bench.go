// Package bench measures how long locks take in a store, or in two stores beside each other.
//
// Its scenarios are the scenarios of the folder proof/bench/scenarios that every store supports, with a histogram in place
// of a median. Each scenario is measured for a window, in rounds. Two stores are measured in turn, and the order changes
// from round to round, so that the machine's other load meets both.
//
// Of the other packages of the command it may import reserve.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/reserve"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/histogram"
)

// A Target is a store that is measured.
type Target struct {
	Prefix string // the names that are locked begin with it and a slash; nobody else uses such names
	Open   func(ctx context.Context) (*stile.Client, error)
}

// A Plan describes a benchmark.
type Plan struct {
	Targets   []Target
	Scenarios []*Scenario
	Window    time.Duration // how long each scenario is measured in each round
	Rounds    int
	Progress  func(Step) // called before each window
}

// A Step is a window that begins.
type Step struct {
	Number, Of int
	Round      int // the first is 1
	Target     int
	Scenario   *Scenario
}

// A Result has the figures of a benchmark.
type Result struct {
	Traits []driver.Traits // the traits of each opened target
	Rows   []Row           // one for each scenario
	Left   []string        // the names still in use at the end, or the reason why they are unknown
}

// A Row has the figures of a scenario.
type Row struct {
	*Scenario
	Sides []*Side // one for each target; nil for a store that does not have such locks
}

// A Side has the figures of a scenario in one store.
type Side struct {
	Times  histogram.Histogram // of all rounds
	Rounds []Round
}

// A Round is one window.
type Round struct {
	Rate float64       // calls a second; 0 for a scenario with pauses
	P50  time.Duration // the median
}

// patience is how much longer than its window a scenario may take before it is given up.
const patience = 30 * time.Second

// tidying bounds the search for names that are still in use.
const tidying = 5 * time.Second

// A runner carries out a plan.
type runner struct {
	*Plan
	clients [][]*stile.Client // of each target
	result  *Result
}

// Run measures. If it fails, or ctx ends, the result has the figures so far.
func Run(ctx context.Context, p *Plan) (*Result, error) {
	r := &runner{Plan: p, clients: make([][]*stile.Client, len(p.Targets)), result: &Result{}}
	err := r.begin(ctx)
	if err == nil {
		err = r.rounds(ctx)
		r.result.Left = r.left(ctx)
	}
	return r.result, errors.Join(err, r.close())
}

// begin opens the stores, and checks that nobody uses the names.
func (r *runner) begin(ctx context.Context) error {
	for i := range r.Targets {
		c, err := r.client(ctx, i, 0)
		if err != nil {
			return err
		}
		if err := reserve.Unused(ctx, c, r.Targets[i].Prefix); err != nil {
			return err
		}
		r.result.Traits = append(r.result.Traits, c.Traits())
	}
	for _, s := range r.Scenarios {
		row := Row{Scenario: s}
		for _, t := range r.result.Traits {
			var side *Side
			if !s.shared || t.Shared {
				side = &Side{}
			}
			row.Sides = append(row.Sides, side)
		}
		r.result.Rows = append(r.result.Rows, row)
	}
	return nil
}

// client returns a client of a target. It opens the client at the first call.
func (r *runner) client(ctx context.Context, target, number int) (*stile.Client, error) {
	for len(r.clients[target]) <= number {
		c, err := r.Targets[target].Open(ctx)
		if err != nil {
			return nil, err
		}
		r.clients[target] = append(r.clients[target], c)
	}
	return r.clients[target][number], nil
}

// rounds measures everything.
func (r *runner) rounds(ctx context.Context) error {
	step := Step{}
	for _, row := range r.result.Rows {
		for _, side := range row.Sides {
			if side != nil {
				step.Of += r.Rounds
			}
		}
	}
	for round := range r.Rounds {
		for _, row := range r.result.Rows {
			for i := range row.Sides {
				target := (i + round) % len(row.Sides)
				side := row.Sides[target]
				if side == nil {
					continue
				}
				step.Number, step.Round, step.Target, step.Scenario = step.Number+1, round+1, target, row.Scenario
				r.Progress(step)
				if err := r.measure(ctx, side, &step); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure takes one window.
func (r *runner) measure(ctx context.Context, side *Side, step *Step) error {
	w := &window{
		name:   fmt.Sprintf("%s/%d/%s-%d", r.Targets[step.Target].Prefix, step.Target+1, step.Scenario.Key, step.Round),
		traits: r.result.Traits[step.Target], length: r.Window,
	}
	for i := range step.Scenario.clients {
		c, err := r.client(ctx, step.Target, i)
		if err != nil {
			return err
		}
		w.clients = append(w.clients, c)
	}
	limit := r.Window + patience
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %v", step.Scenario.Key, limit))
	defer cancel()
	err := step.Scenario.run(ctx, w)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	round := Round{P50: w.times.Quantile(0.5)}
	if !step.Scenario.pauses {
		round.Rate = float64(w.times.N) / w.span.Seconds()
	}
	side.Rounds = append(side.Rounds, round)
	side.Times.Merge(&w.times)
	return nil
}

// left returns the names that are still in use.
func (r *runner) left(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidying)
	defer cancel()
	for i, t := range r.Targets {
		names, err := reserve.Names(ctx, r.clients[i][0], t.Prefix)
		if err != nil && !errors.Is(err, stile.ErrUnsupported) {
			left = append(left, fmt.Sprintf("what begins with %q could not be looked for: %v", t.Prefix+"/", err))
		}
		for _, name := range names {
			left = append(left, fmt.Sprintf("%q is still in use", name))
		}
	}
	return left
}

func (r *runner) close() error {
	var errs []error
	for _, list := range r.clients {
		for _, c := range list {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
