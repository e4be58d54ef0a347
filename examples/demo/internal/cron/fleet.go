//go:build unix

package cron

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/jobs"
)

// A fleet has the machines of one part of the demo, and the history of its ticks. With a lock, the machine that has begun
// the tick number killAt is killed in that run, and the run of the tick number stickAt hangs. Both happen in answer to the
// run's own notice, so they hit it at any speed of the machines.
type fleet struct {
	title           string
	name            string // of the job; empty without a lock
	machines        int
	killAt, stickAt int
	tokenless       bool // the store's tokens need not rise

	*demo.Processes
	ticks  []*tickPast // in the order of their first runs
	begun  time.Time
	took   time.Duration
	killed time.Time
	over   time.Duration // from the kill until the tick's next run
}

// A tickPast is the history of a tick.
type tickPast struct {
	Tick    time.Time
	Runs    []tickRun
	Done    int // how many runs came to their end
	CutOff  int
	Trouble string
}

// A tickRun is one run that began.
type tickRun struct {
	machine      int
	token        int64
	begun, ended time.Duration // since the fleet began to run
	killed       bool
	outcome      jobs.Outcome
}

// open starts the machines, and returns when all are ready.
func (f *fleet) open(ctx context.Context, ttl, maxHold time.Duration) error {
	for range f.machines {
		if _, err := f.Start(ctx, "machine", machineName, f.name, ttl.String(), maxHold.String()); err != nil {
			return err
		}
	}
	return f.Gather(ctx)
}

// run lets the machines run until a number of ticks are over.
func (f *fleet) run(ctx context.Context, ticks int, show func(over int)) error {
	f.begun = time.Now()
	for _, c := range f.All {
		if err := c.Tell(orderStart); err != nil {
			return err
		}
	}
	for f.settled() < ticks {
		n, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if err := f.hear(n); err != nil {
			return err
		}
		show(f.settled())
	}
	f.took = time.Since(f.begun)
	return nil
}

// settled counts the ticks that are over: with a lock after one machine's run, without after all machines'.
func (f *fleet) settled() (n int) {
	want := 1
	if f.name == "" {
		want = f.machines
	}
	for _, t := range f.ticks {
		if t.Done+t.CutOff >= want {
			n++
		}
	}
	return n
}

func (f *fleet) hear(n demo.Heard) error {
	if n.From.Dead {
		return nil
	}
	switch {
	case n.What == didTake:
		return f.take(n)
	case n.What == didOver && n.Outcome == string(jobs.Trouble):
		return exit.With(exit.Store,
			fmt.Errorf("machine %d: the store did not say whether the job may run here: %s", n.From.Number, n.Text))
	case n.What == didOver && n.Token != 0:
		t := f.tick(n.Tick)
		t.over(n, time.Since(f.begun))
		switch jobs.Outcome(n.Outcome) {
		case jobs.Done:
			t.Done++
		case jobs.CutOff:
			t.CutOff++
		default:
			return fmt.Errorf("machine %d: the run of %s has %s: %s", n.From.Number, n.Tick.Format(time.TimeOnly), n.Outcome, n.Text)
		}
		return nil
	case n.What == didOver: // another machine has it
		return nil
	}
	return n.Failure()
}

// over notes the end of a run.
func (t *tickPast) over(n demo.Heard, at time.Duration) {
	for i := range t.Runs {
		if r := &t.Runs[i]; r.machine == n.From.Number && r.token == n.Token {
			r.ended, r.outcome = at, jobs.Outcome(n.Outcome)
		}
	}
}

// take notes that a run has begun, and kills it, lets it hang, or lets it end.
func (f *fleet) take(n demo.Heard) error {
	t := f.tick(n.Tick)
	t.Runs = append(t.Runs, tickRun{machine: n.From.Number, token: n.Token, begun: time.Since(f.begun)})
	if f.name == "" {
		return n.From.Tell(orderDone)
	}
	number := slices.Index(f.ticks, t)
	switch {
	case number == f.killAt && len(t.Runs) == 1:
		f.killed, t.Runs[0].killed = time.Now(), true
		return n.From.Kill()
	case number == f.killAt && f.over == 0:
		f.over = time.Since(f.killed)
	case number == f.stickAt && len(t.Runs) == 1:
		return n.From.Tell(orderStick)
	}
	return n.From.Tell(orderDone)
}

func (f *fleet) tick(at time.Time) *tickPast {
	for _, t := range f.ticks {
		if t.Tick.Equal(at) {
			return t
		}
	}
	t := &tickPast{Tick: at}
	f.ticks = append(f.ticks, t)
	return t
}
